"""A checked scenario as what the engine runs: defaults filled in, UIDs and IDs drawn."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec

from kubeledger.ingest.messages.settings_flags import minor_version
from kubeledger.kubelet.kube.statuses import objects_of
from kubeledger.kubelet.profile.resolve import resolve, with_gates
from kubeledger.model.bodies.prober import ProbeType, TickResult
from kubeledger.simulate.engine.plan import (
    ContainerScript,
    DeviceScript,
    DiskChange,
    ExitStep,
    Failure,
    ImageArrival,
    KubeletRestart,
    NodePlan,
    Plan,
    PlannedClaim,
    PlannedPod,
    PlannedUpdate,
    PluginScript,
    PluginStep,
    ProbeStep,
    Usage,
)
from kubeledger.simulate.engine.schedule import Draws
from kubeledger.simulate.scenario.defaults import (
    Cluster,
    defaulted,
    drawn_hash,
    drawn_uid,
    effective,
)
from kubeledger.simulate.scenario.load import Loaded, Manifest
from kubeledger.simulate.scenario.models import Container, Pods, Probe, Update
from kubeledger.simulate.scenario.models_node import (
    DRIVER,
    Claim,
    Node,
    Plugin,
    Restart,
    claim_name,
)
from kubeledger.simulate.scenario.pod_types import containers_of, with_resources

_IMAGE_BYTES = 100 << 20
_INIT_NS = 1_000_000_000
_STATIC_PATH = "/etc/kubernetes/manifests"


def to_plan(
    loaded: Loaded,
    *,
    seed: int | None = None,
    duration_ns: int | None = None,
    node: str | None = None,
    every_tick: bool | None = None,
) -> Plan:
    """What the engine runs.

    Args:
        seed: in place of the scenario's.
        duration_ns: in place of the scenario's.
        node: its name, in place of the scenario's.
        every_tick: in place of the scenario's.
    """
    scenario = loaded.scenario
    chosen_seed = scenario.seed if seed is None else seed
    end_ns = scenario.duration if duration_ns is None else duration_ns
    node_plan = _node(scenario.node, node)
    draws = Draws(chosen_seed, "scenario")
    return Plan(
        kubelet_version=scenario.kubelet_version.removeprefix("v"),
        seed=chosen_seed,
        start_ns=scenario.start,
        duration_ns=end_ns,
        node=node_plan,
        settings=loaded.settings,
        given_settings=tuple(sorted(loaded.given)),
        plugins=tuple(_plugin(plugin) for plugin in scenario.plugins),
        images=_images(loaded, draws.stream("images")),
        pods=_pods(loaded, _cluster(loaded, node_plan.name), draws.stream("pods")),
        disk_changes=_disk_changes(loaded),
        sandbox_failures=tuple(
            (each.from_, end_ns if each.for_ is None else each.from_ + each.for_)
            for each in scenario.runtime_failures
        ),
        failures=tuple(
            Failure(
                what=each.what,
                of=each.of,
                pods=tuple(name if "/" in name else f"default/{name}" for name in each.pods),
                from_ns=each.from_,
                until_ns=max(end_ns + 1, each.from_)
                if each.for_ is None
                else each.from_ + each.for_,
                words=each.words,
            )
            for each in scenario.failures
        ),
        kubelet_restarts=tuple(
            _restart(restart, loaded.given) for restart in scenario.kubelet_restarts
        ),
        shutdown_ns=scenario.node_shutdown,
        snapshot_ns=scenario.snapshot_every,
        every_tick=scenario.every_tick if every_tick is None else every_tick,
        shuffle=scenario.shuffle,
    )


def _restart(restart: Restart, given: dict[str, Any]) -> KubeletRestart:
    version = restart.kubelet_version
    return KubeletRestart(
        at_ns=restart.at,
        down_ns=restart.down,
        error=restart.error,
        kubelet_version=version.removeprefix("v") if version else None,
        # Another version has other defaults.
        settings=effective(given, minor_version(version)) if version else None,
    )


def _node(node: Node, name: str | None) -> NodePlan:
    image_disk = node.image_disk
    return NodePlan(
        name=name or node.name,
        cpus=node.cpus,
        memory_bytes=node.memory,
        numa_nodes=tuple(sorted(node.numa_nodes)),
        sockets=node.sockets,
        threads_per_core=node.threads_per_core,
        uncore_caches=node.uncore_caches,
        cgroup_version=node.cgroup_version,
        disk_bytes=node.disk.size,
        disk_used_bytes=node.disk.used,
        image_disk_bytes=image_disk.size if image_disk else None,
        image_disk_used_bytes=image_disk.used if image_disk else 0,
        labels=node.labels,
        taints=tuple(taint.model_dump() for taint in node.taints),
    )


def _plugin(plugin: Plugin) -> PluginScript:
    steps = [PluginStep(at_ns=plugin.registers, does="register")]
    for event in plugin.events:
        if event.unhealthy:
            step = PluginStep(at_ns=event.at, does="unhealthy", devices=tuple(event.unhealthy))
        elif event.healthy:
            step = PluginStep(at_ns=event.at, does="healthy", devices=tuple(event.healthy))
        else:
            step = PluginStep(at_ns=event.at, does="crash" if event.crash else "register")
        steps.append(step)
    return PluginScript(
        resource=plugin.resource,
        devices=tuple(
            DeviceScript(id=device.id, numa=_numa(device.numa)) for device in plugin.devices
        ),
        preferred=plugin.preferred,
        steps=tuple(steps),
    )


def _numa(numa: int | list[int] | None) -> tuple[int, ...] | None:
    if numa is None:
        return None
    return (numa,) if isinstance(numa, int) else tuple(sorted(set(numa)))


def _images(loaded: Loaded, draws: Draws) -> tuple[ImageArrival, ...]:
    images = loaded.scenario.images
    pulled = {each.of for each in loaded.scenario.failures if each.what == "image"}
    if images is None:
        manifests = (manifest for group in loaded.manifests for manifest in group)
        named = [c["image"] for each in manifests for c, _, _ in containers_of(each.data)]
        updates = (update for pods in loaded.scenario.pods for update in pods.updates)
        named += [image for update in updates for image in update.images.values()]
        return tuple(
            ImageArrival(name=name, image_id=_image_id(name, draws), size_bytes=_IMAGE_BYTES)
            for name in dict.fromkeys(named)
            if name not in pulled
        )
    return tuple(
        ImageArrival(
            name=image.name,
            image_id=f"sha256:{image.id.removeprefix('sha256:')}"
            if image.id
            else _image_id(image.name, draws),
            size_bytes=image.size,
            pinned=image.pinned,
            at_ns=at_ns,
        )
        for image in images
        for at_ns in (image.at, *image.again)
    )


def _image_id(name: str, draws: Draws) -> str:
    return f"sha256:{drawn_hash(draws.stream(name))}"


def _cluster(loaded: Loaded, node: str) -> Cluster:
    version = loaded.scenario.kubelet_version
    profile = with_gates(resolve(version), loaded.settings.get("featureGates"))
    return Cluster(
        node=node,
        minor=minor_version(version) or 0,
        pod_level_resources=profile.admission.pod_level_resources,
        static_path=(loaded.settings.get("staticPodPath") or _STATIC_PATH).rstrip("/"),
    )


def _pods(loaded: Loaded, cluster: Cluster, draws: Draws) -> tuple[PlannedPod, ...]:
    found: list[PlannedPod] = []
    groups = zip(loaded.scenario.pods, loaded.manifests, strict=True)
    for index, (pods, manifests) in enumerate(groups):
        where = f"pods[{index}]"
        for manifest in manifests:
            found += _replicas(loaded, pods, manifest, where, cluster, draws)
    # Stable: of one instant, in the order of the file.
    return tuple(sorted(found, key=lambda pod: pod.arrives_ns))


def _replicas(
    loaded: Loaded, pods: Pods, manifest: Manifest, where: str, cluster: Cluster, draws: Draws
) -> list[PlannedPod]:
    scripts = _scripts(pods.containers, manifest.data, loaded.scenario.duration)
    found = []
    for number, suffix in enumerate(pods.suffixes):
        arrives_ns = pods.arrives + number * pods.every
        meta = manifest.data["metadata"]
        name = f"{meta.get('namespace') or 'default'}/{meta['name']}{suffix}@{arrives_ns}"

        def seen(
            data: dict[str, Any], at_ns: int, name: str = name, suffix: str = suffix
        ) -> dict[str, Any]:
            return defaulted(
                data,
                cluster=cluster,
                source=pods.source,
                created_ns=loaded.scenario.start + at_ns,
                draws=draws.stream(name),
                suffix=suffix,
            )

        versions = [(arrives_ns, manifest.data)]
        for update in pods.updates:
            versions.append((update.at, _updated(versions[-1][1], update)))
        # Another manifest of a static pod is another pod.
        kept = versions[:1] if pods.source == "api" else versions
        ends = [*(at_ns for at_ns, _ in kept[1:]), pods.deleted]
        found += [
            PlannedPod(
                place=where,
                manifest=seen(data, at_ns),
                source=pods.source,
                arrives_ns=at_ns,
                deleted_ns=deleted_ns,
                updates=tuple(
                    PlannedUpdate(at_ns=each_ns, manifest=seen(each, arrives_ns))
                    for each_ns, each in versions[len(kept) :]
                ),
                claims=_claims(loaded.scenario.claims, meta, suffix, data, draws),
                scripts=scripts,
            )
            for (at_ns, data), deleted_ns in zip(kept, ends, strict=True)
        ]
    return found


def _claims(
    claims: list[Claim], meta: dict[str, Any], suffix: str, data: dict[str, Any], draws: Draws
) -> tuple[PlannedClaim, ...]:
    """The claims that a pod names, with what is allocated to them."""
    known = {(claim.namespace, claim.name): claim for claim in claims}
    namespace, pod = meta.get("namespace") or "default", f"{meta['name']}{suffix}"
    found = []
    for each in objects_of(data["spec"].get("resourceClaims")):
        name = claim_name(pod, each)
        claim = known.get((namespace, name))
        reserved = claim.reserved_for if claim is not None else None
        drivers = {DRIVER: ["device-0"]} if claim is None else claim.drivers
        found.append(
            PlannedClaim(
                in_spec=str(each.get("name")),
                name=name,
                uid=drawn_uid(draws.stream(f"claim/{namespace}/{name}")),
                drivers={driver: tuple(devices) for driver, devices in drivers.items()},
                is_made=not each.get("resourceClaimName"),
                is_reserved=reserved is None or pod in reserved,
            )
        )
    return tuple(found)


def _updated(manifest: dict[str, Any], update: Update) -> dict[str, Any]:
    """A manifest with other images and resources."""
    changed = deepcopy(manifest)
    for container, _, _ in containers_of(changed):
        name = container["name"]
        container["image"] = update.images.get(name, container["image"])
        if name in update.resources:
            container["resources"] = with_resources(container, update.resources[name])
    return changed


def _scripts(
    containers: dict[str, Container], manifest: dict[str, Any], end_ns: int
) -> dict[str, ContainerScript]:
    scripts: dict[str, ContainerScript] = {}
    for container, _, init in containers_of(manifest):
        name = container["name"]
        script = _script(containers[name], end_ns) if name in containers else ContainerScript()
        ends = init and container.get("restartPolicy") != "Always"
        if ends and not script.exits:
            # Else it would run for ever, and block all that come after it.
            done = (ExitStep(after_ns=_INIT_NS, code=0),)
            script = msgspec.structs.replace(script, exits=done, exits_repeat=True)
        if name in containers or ends:
            scripts[name] = script
    return scripts


def _script(container: Container, end_ns: int) -> ContainerScript:
    probes: dict[ProbeType, Any] = {}
    kinds: tuple[ProbeType, ...] = ("liveness", "readiness", "startup")
    for kind in kinds:
        if (probe := getattr(container.probes, kind)) is not None:
            probes[kind] = _probe_steps(probe, end_ns)
    return ContainerScript(
        exits=tuple(ExitStep(after_ns=each.after, code=each.code) for each in container.exits),
        exits_repeat=container.exits_repeat,
        probes=probes,
        usage=tuple(
            Usage(from_ns=each.from_, memory_bytes=each.memory, disk_bytes=each.disk)
            for each in container.usage
        ),
        child=container.child,
        hook_failures=container.post_start_failures,
        stop_ns=container.stops_after,
    )


def _probe_steps(probe: Probe, end_ns: int) -> tuple[ProbeStep, ...]:
    """The steps that a script stands for; ``flaps`` continues until the end."""
    if probe.steps is not None:
        return tuple(_step(probe, step.from_, step.result, step.output) for step in probe.steps)
    found: list[ProbeStep] = []
    for start_ns, stop_ns in _failures(probe, end_ns):
        found.append(_step(probe, start_ns, probe.result, probe.output))
        if stop_ns is not None:
            found.append(_step(probe, stop_ns, "success", ""))
    return tuple(found)


def _failures(probe: Probe, end_ns: int) -> list[tuple[int, int | None]]:
    if probe.flaps is not None:
        every = probe.flaps.every
        first = probe.flaps.from_ + every
        return [(at, at + every) for at in range(first, max(end_ns, first) + 1, 2 * every)]
    spans = probe.fails if isinstance(probe.fails, list) else [probe.fails]
    return [
        (span.from_, None if span.for_ is None else span.from_ + span.for_)
        for span in spans
        if span is not None
    ]


def _step(probe: Probe, from_ns: int, result: TickResult, output: str) -> ProbeStep:
    return ProbeStep(from_ns=from_ns, since=probe.since, result=result, output=output)


def _disk_changes(loaded: Loaded) -> tuple[DiskChange, ...]:
    return tuple(
        DiskChange(at_ns=change.at, disk=change.disk, **{name: amount})
        for change in loaded.scenario.disk_changes
        for name, amount in (("bytes", change.bytes), ("bytes_per_hour", change.per_hour))
        if amount
    )
