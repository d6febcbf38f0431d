"""Whether what a scenario lets happen is possible: its claims, failures and resizes."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import msgspec

from kubeledger.kubelet.kube.pod import SIDECAR, Pod
from kubeledger.kubelet.kube.podclass import SYSTEM_CRITICAL_PRIORITY, pod_qos
from kubeledger.kubelet.kube.quantity import QuantityError
from kubeledger.kubelet.kube.resources import nanos_of
from kubeledger.kubelet.kube.statuses import objects_of
from kubeledger.kubelet.profile.resolve import KubeletProfile, resolve, with_gates
from kubeledger.simulate.engine.failures import env_sources, volume_sources
from kubeledger.simulate.scenario.models import Pods, Update
from kubeledger.simulate.scenario.models_node import DRIVER, UNNAMED, Failure, claim_name
from kubeledger.simulate.scenario.pod_types import (
    PRIORITY_CLASSES,
    containers_of,
    name_of,
    with_resources,
)
from kubeledger.simulate.scenario.problems import Fault, Path, suggestion, twice
from kubeledger.simulate.scenario.validate import Groups, Sound


def check_claims(sound: Sound, groups: Groups, settings: dict[str, Any]) -> Iterator[Fault]:
    """Claims that nobody uses."""
    claims, version = sound.items["claims"], sound.scenario.kubelet_version
    names = [(("claims", i, "name"), f"{each.namespace}/{each.name}") for i, each in claims]
    yield from twice(names, lambda name: f"claim {name} is there twice")
    stages = with_gates(resolve(version), settings.get("featureGates")).stages
    if claims and not stages.dynamic_resources:
        advice = "choose 1.34 or later, or 1.28 with the gate DynamicResourceAllocation"
        yield ("claims",), f"kubelet {version} prepares no claims", advice
    if sound.incomplete & {"pods"}:
        return
    entries, users = dict(sound.items["pods"]), dict[str, set[str]]()
    for index, manifests in groups:
        for manifest in manifests:
            named, spec = name_of(manifest), _spec_of(manifest)
            for suffix in entries[index].suffixes if named is not None else ():
                assert named is not None
                pod = named[1] + suffix
                for claim in objects_of(spec.get("resourceClaims")):
                    users.setdefault(f"{named[0]}/{claim_name(pod, claim)}", set()).add(pod)
    for index, claim in claims:
        key = f"{claim.namespace}/{claim.name}"
        if key not in users:
            yield ("claims", index, "name"), "no pod names it", suggestion(key, users, "claim")
        for number, pod in enumerate(claim.reserved_for or ()):
            if pod not in users.get(key, {pod}):
                at = ("claims", index, "reservedFor", number)
                yield at, f"no pod {pod!r} names it", suggestion(pod, users[key], "pod")


def _spec_of(manifest: object) -> dict[str, Any]:
    spec = manifest.get("spec") if isinstance(manifest, dict) else None
    return spec if isinstance(spec, dict) else {}


# Whether what a scenario lets fail is there.

_CALLED = {
    "claim": "resource claim",
    "configMap": "config map",
    "create": "container",
    "hook": "container with a post-start hook",
    "start": "container",
}


def check_failures(sound: Sound, groups: Groups, settings: dict[str, Any]) -> Iterator[Fault]:
    """Failures of what no pod has, or the kubelet does not know."""
    entries, scenario = dict(sound.items["pods"]), sound.scenario
    whole = not sound.incomplete & {"pods"}
    names = {
        f"{named[0]}/{named[1]}{suffix}"
        for index, manifests in groups
        for manifest in manifests
        if (named := name_of(manifest)) is not None
        for suffix in entries[index].suffixes
    }
    there = {found for _, manifests in groups for each in manifests for found in _in(each)}
    there |= {
        ("image", image)
        for pods in entries.values()
        for update in pods.updates
        for image in update.images.values()
    }
    there |= {("driver", name) for _, claim in sound.items["claims"] for name in claim.drivers}
    there |= {("driver", DRIVER)} if any(what == "claim" for what, _ in there) else set()
    facts = with_gates(resolve(scenario.kubelet_version), settings.get("featureGates")).stages
    for index, failure in sound.items["failures"]:
        prepares = facts.dynamic_resources and facts.claim_failures_reported
        if failure.what in ("claim", "driver") and not prepares:
            text = f"kubelet {scenario.kubelet_version} prepares no claims that could fail"
            advice = "choose 1.34 or later, or 1.28 with the gate DynamicResourceAllocation"
            yield ("failures", index, "what"), text, advice
        if whole:
            yield from _named(index, failure, names, there)


def _named(
    index: int, failure: Failure, names: set[str], there: set[tuple[str, str]]
) -> Iterator[Fault]:
    for number, pod in enumerate(failure.pods):
        if (pod if "/" in pod else f"default/{pod}") not in names:
            at = ("failures", index, "pods", number)
            yield at, f"there is no pod {pod!r}", suggestion(pod, names, "pod")
    known = {name for what, name in there if what == failure.what}
    if failure.of is not None and failure.what not in UNNAMED and failure.of not in known:
        called = _CALLED.get(failure.what, failure.what)
        text = f"no pod has a {called} {failure.of!r}"
        yield ("failures", index, "of"), text, suggestion(failure.of, known, called)


def _in(manifest: object) -> Iterator[tuple[str, str]]:
    """What a pod has that can fail, with its name."""
    spec = _spec_of(manifest)
    for volume in objects_of(spec.get("volumes")):
        yield from volume_sources(volume)
    for claim in objects_of(spec.get("resourceClaims")):
        yield "claim", str(claim.get("name"))
    for container, _, _ in containers_of(manifest):
        name = str(container.get("name"))
        yield from (("create", name), ("start", name), ("image", str(container.get("image"))))
        yield from env_sources(container)
        lifecycle = container.get("lifecycle")
        if isinstance(lifecycle, dict) and lifecycle.get("postStart"):
            yield "hook", name


# Whether an API server would take the resizes of a scenario, and its kubelet do something.


def check_resizes(sound: Sound, groups: Groups, settings: dict[str, Any]) -> Iterator[Fault]:
    """Resizes that cannot be."""
    entries, version = dict(sound.items["pods"]), sound.scenario.kubelet_version
    profile = with_gates(resolve(version), settings.get("featureGates"))
    for index, manifests in groups:
        pods = entries[index]
        changed = [deepcopy(each) for each in manifests if isinstance(each, dict)]
        for number, update in enumerate(pods.updates):
            at: Path = ("pods", index, "updates", number, "resources")
            if not update.resources:
                continue
            if pods.source == "api" and not profile.kuberuntime.resizes_in_place:
                text = f"kubelet {version} resizes no pods in place"
                yield at, text, "choose 1.33 or later, or the gate InPlacePodVerticalScaling"
                break
            for manifest in changed:
                yield from _resize(manifest, pods, update, at, profile)


def _resize(
    manifest: dict[str, Any], pods: Pods, update: Update, at: Path, profile: KubeletProfile
) -> Iterator[Fault]:
    """One resize of one pod, which is changed by it."""
    known = {str(c.get("name")): (c, init) for c, _, init in containers_of(manifest)}
    before = _qos(manifest, profile)
    for name, asked in update.resources.items():
        if name not in known:
            advice = suggestion(name, known, "container")
            yield (*at, name), f"the pod has no container {name!r}", advice
            continue
        container, init = known[name]
        resizable = not init or container.get("restartPolicy") == SIDECAR
        if not (resizable or profile.kuberuntime.init_containers_resized):
            text = f"{name!r} is an init container that ends, which cannot be resized"
            yield (*at, name), text, "resize other containers"
        container["resources"] = with_resources(container, asked)
        yield from _below(container["resources"], (*at, name))
    if pods.source != "api":
        return
    after = _qos(manifest, profile)
    if before is not None and after is not None and before != after:
        text = f"makes a {after} pod of a {before} one, which the API server refuses"
        yield at, text, "keep requests and limits as they are related"
    spec = manifest.get("spec") or {}
    priority = spec.get("priority", PRIORITY_CLASSES.get(spec.get("priorityClassName") or "", 0))
    if isinstance(priority, int) and priority >= SYSTEM_CRITICAL_PRIORITY:
        text = "the pod is critical: whom its resize preempts is not simulated"
        yield at, text, "resize pods of a lower priority"


def _below(resources: dict[str, Any], at: Path) -> Iterator[Fault]:
    """Limits below requests."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for resource in ("cpu", "memory"):
        try:
            below = nanos_of(limits[resource]) < nanos_of(requests[resource])
        except (KeyError, QuantityError):
            continue
        if below:
            advice = "raise the limit, or lower the request"
            yield at, f"the limit of {resource} is below its request", advice


def _qos(manifest: dict[str, Any], profile: KubeletProfile) -> str | None:
    """The QoS class; None for a manifest that is wrong, which is told elsewhere."""
    asked = deepcopy(manifest)
    for container, _, _ in containers_of(asked):
        if isinstance(resources := container.get("resources"), dict) and resources.get("limits"):
            # What is only limited is requested, too.
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    try:
        pod = msgspec.convert({"metadata": {}, "spec": asked.get("spec")}, Pod)
        return pod_qos(pod, status_wins=False, pod_level=profile.admission.pod_level_resources)
    except (msgspec.ValidationError, QuantityError, ValueError):
        return None
