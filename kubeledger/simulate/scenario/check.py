"""Contradictions between parts of a scenario: all that can be found before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from kubeledger.kubelet.cgroups.node_config import reservation_of, reserved_amount
from kubeledger.kubelet.cpumanager.cpu_manager import configuration_of, new_policy
from kubeledger.kubelet.cpumanager.policy_static import STATIC, PolicyError
from kubeledger.kubelet.kube.quantity import QuantityError
from kubeledger.kubelet.kube.resources import name_key, nanos_of
from kubeledger.kubelet.lifecycle.termination import shutdown_groups
from kubeledger.kubelet.memorymanager.checkpoint import STATIC as STATIC_MEMORY
from kubeledger.kubelet.memorymanager.memory_manager import default_machine
from kubeledger.kubelet.profile.resolve import KubeletProfile, resolve, with_gates
from kubeledger.model.units import format_go_duration
from kubeledger.simulate.engine.machine import machine_info
from kubeledger.simulate.engine.resource_managers import machine_settings
from kubeledger.simulate.scenario.check_happenings import (
    check_claims,
    check_failures,
    check_resizes,
)
from kubeledger.simulate.scenario.models import Pods, Scenario
from kubeledger.simulate.scenario.pod_types import check_pod, containers_of, name_of, probes_of
from kubeledger.simulate.scenario.problems import Fault, Path, Problems, in_order, suggestion, twice
from kubeledger.simulate.scenario.validate import Sound

_OF_CPUS: tuple[Path, ...] = (
    *(("node", key) for key in ("cpus", "numaNodes", "sockets", "threadsPerCore", "uncoreCaches")),
    ("kubeletVersion",),
    ("kubeletRestarts",),
    ("config",),
)
_OF_MEMORY: tuple[Path, ...] = (
    *(("node", key) for key in ("memory", "numaNodes")),
    ("kubeletVersion",),
    ("kubeletRestarts",),
    ("config",),
)
PodGroup = tuple[int, list[tuple[Any, Path]]]
"""Index of an entry of ``pods``, and its manifests with their places."""


def check(
    sound: Sound, groups: Sequence[PodGroup], settings: dict[str, Any], problems: Problems
) -> None:
    """Note every contradiction."""
    scenario = sound.scenario
    found = [
        *_plugins(sound, numa_is_known=not problems.inside(("node", "numaNodes"))),
        *_images(sound),
        *_disks(sound),
        *_restarts(sound),
    ]
    if not problems.inside(("kubeletVersion",)):
        found += _node(scenario, settings)
        given = [(index, [manifest for manifest, _ in each]) for index, each in groups]
        found += check_failures(sound, given, settings)
        found += check_resizes(sound, given, settings)
        found += check_claims(sound, given, settings)
    if not any(problems.inside(("node", key)) for key in ("cpus", "memory")):
        found += _reserved(scenario, settings)
    if not any(problems.inside(at) for at in _OF_CPUS):
        found += _static_cpus(sound, settings)
    if not any(problems.inside(at) for at in _OF_MEMORY):
        found += _static_memory(sound, settings)
    for index, manifests in groups:
        pods = dict(sound.items["pods"])[index]
        for manifest, path in manifests:
            check_pod(manifest, path, problems)
            found += _pod_images(sound, pods, manifest, path)
        found += _scripts(sound, pods, index, [manifest for manifest, _ in manifests])
    found += _pods_twice(dict(sound.items["pods"]), groups)
    for fault in found:
        problems.note(fault)


def _node(scenario: Scenario, settings: dict[str, Any]) -> Iterator[Fault]:
    if scenario.node.cgroup_version == 1 and settings.get("failCgroupV1") is True:
        text = f"kubelet {scenario.kubelet_version} does not start with cgroups of version 1"
        advice = "write `cgroupVersion: 2`, or `failCgroupV1: false` in `config`"
        yield ("node", "cgroupVersion"), text, advice
    facts = with_gates(resolve(scenario.kubelet_version), settings.get("featureGates"))
    if scenario.node_shutdown is not None and not shutdown_groups(settings, facts.lifecycle):
        advice = "set `shutdownGracePeriod` in `config`, from 1.21 on"
        yield ("nodeShutdown",), "the kubelet does nothing about a shutdown", advice


def _static_cpus(sound: Sound, settings: dict[str, Any]) -> Iterator[Fault]:
    """Reserves and options with which the static policy does not start, of any process."""
    if settings.get("cpuManagerPolicy") != STATIC:
        return
    machine = machine_info(sound.scenario.node)
    for profile, at in _processes(sound, settings):
        try:
            reserved = reserved_amount("cpu", reservation_of(settings.get))
            new_policy(configuration_of(settings.get, machine, reserved), profile)
        except (PolicyError, QuantityError) as error:
            text = f"kubelet {profile.version} does not start with this cpuManagerPolicy: {error}"
            advice = "mend `cpuManagerPolicyOptions` or what is reserved in `config`"
            yield at, text, advice


def _static_memory(sound: Sound, settings: dict[str, Any]) -> Iterator[Fault]:
    """Reserves of NUMA nodes with which the memory manager does not start, of any process."""
    node = sound.scenario.node
    if settings.get("memoryManagerPolicy") != STATIC_MEMORY:
        return
    for profile, at in _processes(sound, settings):
        if not profile.resourcemanagers.memory_manager_gate_on:
            continue
        try:
            numa_nodes = sorted(node.numa_nodes)
            default_machine(machine_settings(node.memory, numa_nodes, settings.get, profile))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            text = f"kubelet {profile.version} does not start with this reservedMemory: {error}"
            advice = "by type, keep as much of all NUMA nodes as `config` keeps of the node"
            yield at, text, advice


def _processes(sound: Sound, settings: dict[str, Any]) -> Iterator[tuple[KubeletProfile, Path]]:
    """The versions of the scenario's kubelets, and where each is named."""
    scenario = sound.scenario
    at = "configFile" if scenario.config_file is not None else "config"
    versions: dict[str, Path] = {scenario.kubelet_version: (at,)}
    for index, restart in sound.items["kubeletRestarts"]:
        place: Path = ("kubeletRestarts", index, "kubeletVersion")
        versions.setdefault(restart.kubelet_version or scenario.kubelet_version, place)
    for version, place in versions.items():
        yield with_gates(resolve(version), settings.get("featureGates")), place


def _reserved(scenario: Scenario, settings: dict[str, Any]) -> Iterator[Fault]:
    """Where nothing, or less, is left for pods."""
    capacity = {"cpu": scenario.node.cpus * 10**9, "memory": scenario.node.memory * 10**9}
    at = "configFile" if scenario.config_file is not None else "config"
    for resource, nanos in capacity.items():
        reserved = {
            field: amount
            for field in ("kubeReserved", "systemReserved")
            if (amount := _nanos(settings.get(field), resource))
        }
        if sum(reserved.values()) >= nanos:
            text = f"reserves all {resource} of the node and more: nothing is left for pods"
            advice = "reserve less, or make the node larger"
            yield (at, [*reserved][-1], resource), text, advice


def _nanos(reserved: object, resource: str) -> int:
    amount = reserved.get(resource) if isinstance(reserved, dict) else None
    try:
        return nanos_of(amount)
    except QuantityError:
        return 0  # reported as a wrong setting


def _plugins(sound: Sound, *, numa_is_known: bool) -> Iterator[Fault]:
    plugins = sound.items["plugins"]
    resources = [(("plugins", i, "resource"), plugin.resource) for i, plugin in plugins]
    yield from twice(resources, lambda name: f"{name} has a plugin already")
    numa_nodes = sound.scenario.node.numa_nodes
    for index, plugin in plugins:
        if plugin.any_numa or not numa_is_known:
            continue
        for number, device in enumerate(plugin.devices):
            for node in device.numa if isinstance(device.numa, list) else [device.numa]:
                if node is not None and node not in numa_nodes:
                    text = f"device {device.id!r} is on NUMA node {node}, which the machine has not"
                    known = ", ".join(map(str, numa_nodes))
                    advice = f"it has {known}: see `node.numaNodes`, or say `anyNuma: true`"
                    yield ("plugins", index, "devices", number, "numa"), text, advice


def _images(sound: Sound) -> Iterator[Fault]:
    images, node = sound.items["images"], sound.scenario.node
    names = [(("images", i, "name"), image.name) for i, image in images]
    yield from twice(names, lambda name: f"image {name!r} is there twice")
    ids = [(("images", i, "id"), each.id.removeprefix("sha256:")) for i, each in images if each.id]
    yield from twice(ids, lambda _: "another image has this ID")
    restarts = [restart.kubelet_version for _, restart in sound.items["kubeletRestarts"]]
    versions = [sound.scenario.kubelet_version, *filter(None, restarts)]
    if not any(resolve(version).images.pinned_images_kept for version in versions):
        for index, image in images:
            if image.pinned:
                text = f"kubelet {sound.scenario.kubelet_version} knows no pinned images"
                yield ("images", index, "pinned"), text, "leave it out, or choose 1.23 or later"
    key, disk = ("imageDisk", node.image_disk) if node.image_disk else ("disk", node.disk)
    taken = sum(image.size for _, image in images if image.at == 0)
    if disk.used <= disk.size < disk.used + taken:
        text = f"images of {taken} bytes do not fit beside the {disk.used} bytes that are used"
        yield ("node", key, "size"), text, "make the disk larger, or images smaller"


def _disks(sound: Sound) -> Iterator[Fault]:
    changes = sound.items["diskChanges"]
    yield from in_order((("diskChanges", index, "at"), change.at) for index, change in changes)
    for index, change in changes:
        if change.disk == "image" and sound.scenario.node.image_disk is None:
            advice = "write `disk: node`, or give the node an `imageDisk`"
            yield ("diskChanges", index, "disk"), "there is no image disk", advice


def _restarts(sound: Sound) -> Iterator[Fault]:
    up_ns = 0
    for index, restart in sound.items["kubeletRestarts"]:
        if restart.at < up_ns:
            text = f"there is no kubelet to end before {format_go_duration(up_ns)}"
            advice = "put restarts in the order of time, `down` apart"
            yield ("kubeletRestarts", index, "at"), text, advice
        up_ns = max(up_ns, restart.at + restart.down)


def _pods_twice(entries: dict[int, Pods], groups: Sequence[PodGroup]) -> Iterator[Fault]:
    """Pods of one name; one that is gone before the next comes is no contradiction."""
    intervals: dict[str, list[tuple[int, int | None, Path]]] = {}
    uids: set[str] = set()
    for index, manifests in groups:
        pods = entries[index]
        for manifest, path in manifests:
            if (names := name_of(manifest)) is None:
                continue
            for number, suffix in enumerate(pods.suffixes):
                begin = pods.arrives + number * pods.every
                interval = (begin, pods.deleted, (*path, "metadata", "name"))
                intervals.setdefault(name_key(names[0], names[1] + suffix), []).append(interval)
            uid = str(manifest["metadata"].get("uid") or "")
            if uid and (uid in uids or pods.replicas > 1):
                advice = "leave the UID out: it is drawn from the seed"
                yield (*path, "metadata", "uid"), f"UID {uid} is there twice", advice
            uids.add(uid)
    for key, found in intervals.items():
        found.sort(key=lambda interval: interval[0])
        for (_, gone, first), (begin, _, path) in pairwise(found):
            if gone is None or gone >= begin:
                advice = "rename it, or delete the one in line {} before it arrives"
                yield path, f"pod {key} is there twice", advice, first


def _pod_images(sound: Sound, pods: Pods, manifest: object, path: Path) -> Iterator[Fault]:
    if sound.scenario.images is None or "images" in sound.incomplete:
        return  # all exist; or the fault is reported
    known = {image.name: image for _, image in sound.items["images"]}
    pulled = {each.of for _, each in sound.items["failures"] if each.what == "image"}
    for container, place, _ in containers_of(manifest):
        name = container.get("image")
        at = (*path, *place, "image")
        if not isinstance(name, str) or not name or name in pulled:
            continue
        if name not in known:
            advice = f"add it to `images`; {suggestion(name, known, 'image')}"
            yield at, f"unknown image {name!r}", advice
        elif known[name].at > pods.arrives:
            comes = format_go_duration(known[name].at)
            text = f"image {name!r} comes at {comes}, its pod before it"
            yield at, text, "let the pod arrive later: containers do not pull"


def _scripts(sound: Sound, pods: Pods, index: int, manifests: Sequence[object]) -> Iterator[Fault]:
    """What is to happen to pods and containers that are not there, or not at that time."""
    if pods.arrived != pods.arrives and pods.arrived > sound.scenario.duration:
        is_at, end = format_go_duration(pods.arrived), format_go_duration(sound.scenario.duration)
        text = f"is at {is_at}, after the end at {end}"
        yield ("pods", index, "every"), text, "choose an earlier time, or a longer `duration`"
    found: dict[str, set[str]] = {}
    for manifest in manifests:
        for container, _, _ in containers_of(manifest):
            if isinstance(name := container.get("name"), str):
                found.setdefault(name, set()).update(probes_of(container))
    for name, script in pods.containers.items():
        at: Path = ("pods", index, "containers", name)
        if name not in found:
            advice = suggestion(name, found, "container")
            yield at, f"the pod has no container {name!r}", advice
            continue
        for kind in ("liveness", "readiness", "startup"):
            if getattr(script.probes, kind) is not None and kind not in found[name]:
                text = f"container {name!r} has no {kind} probe"
                advice = f"add `{kind}Probe:` to it, or take the script away"
                yield (*at, "probes", kind), text, advice
    images = {image.name: image for _, image in sound.items["images"]}
    for number, update in enumerate(pods.updates):
        for name, image in update.images.items():
            at = ("pods", index, "updates", number, "images", name)
            if name not in found:
                advice = suggestion(name, found, "container")
                yield at, f"the pod has no container {name!r}", advice
            if sound.scenario.images is None or "images" in sound.incomplete:
                continue
            if image not in images or images[image].at > update.at:
                advice = f"add it to `images`; {suggestion(image, images, 'image')}"
                yield at, f"unknown image {image!r} at that time", advice
