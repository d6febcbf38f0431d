"""Contradictions within a scenario: all that can be found before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from kubeledger.kubelet.kube.names import is_extended_resource
from kubeledger.kubelet.lifecycle.shutdown import shutdown_groups
from kubeledger.kubelet.profile.gates import with_gates
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import format_go_duration
from kubeledger.simulate.scenario.check_pods import PodGroup, check_pods
from kubeledger.simulate.scenario.models import Scenario
from kubeledger.simulate.scenario.models_node import Plugin, PluginEvent
from kubeledger.simulate.scenario.problems import Path, Problems, suggestion
from kubeledger.simulate.scenario.reserved import check_reserved
from kubeledger.simulate.scenario.validate import Sound

__all__ = ["check"]

T = TypeVar("T")


def check(
    sound: Sound, groups: Sequence[PodGroup], settings: dict[str, Any], problems: Problems
) -> None:
    """Note every contradiction.

    Args:
        sound: what of the scenario could be read.
        groups: (index, manifests with their places) of each entry of ``pods``.
        settings: effective ones.
        problems: where to.
    """
    scenario = sound.scenario
    _check_node(scenario, settings, problems)
    check_reserved(scenario, settings, problems)
    _check_plugins(sound, problems)
    _check_images(sound, problems)
    _check_disks(sound, problems)
    _check_restarts(sound, problems)
    _check_shutdown(scenario, settings, problems)
    check_pods(sound, groups, problems)


def _late(scenario: Scenario, at_ns: int, path: Path, problems: Problems) -> None:
    if at_ns > scenario.duration and "duration" not in {each.path for each in problems.found}:
        end = format_go_duration(scenario.duration)
        text = f"is at {format_go_duration(at_ns)}, after the end at {end}"
        problems.add(path, text, "choose an earlier time, or a longer `duration`")


def _in_order(
    items: Iterable[tuple[Path, int]], problems: Problems, what: str = "the one before it"
) -> None:
    before = 0
    for path, at_ns in items:
        if at_ns < before:
            text = (
                f"is at {format_go_duration(at_ns)}, before {what} at {format_go_duration(before)}"
            )
            problems.add(path, text, "put them in the order of time")
        before = max(before, at_ns)


def _twice(
    items: Iterable[tuple[Path, T]], problems: Problems, text_of: Callable[[T], str]
) -> None:
    first: dict[T, Path] = {}
    for path, value in items:
        if value in first:
            line = problems.place(first[value]).line
            problems.add(path, text_of(value), f"it is already in line {line}: keep one of them")
        first.setdefault(value, path)


def _check_shutdown(scenario: Scenario, settings: dict[str, Any], problems: Problems) -> None:
    if scenario.node_shutdown is None:
        return
    _late(scenario, scenario.node_shutdown, ("nodeShutdown",), problems)
    try:
        facts = with_gates(resolve(scenario.kubelet_version), settings.get("featureGates"))
    except BadQuestionError:
        return  # the version is reported
    if not shutdown_groups(settings, facts.lifecycle):
        problems.add(
            ("nodeShutdown",),
            "the kubelet does nothing about a shutdown",
            "set `shutdownGracePeriod` in `config`, from 1.21 on",
        )


def _check_node(scenario: Scenario, settings: dict[str, Any], problems: Problems) -> None:
    node = scenario.node
    if node.memory == 0:
        problems.add(("node", "memory"), "a node needs memory", "write e.g. 8Gi")
    numbered = [(("node", "numaNodes", i), each) for i, each in enumerate(node.numa_nodes)]
    _twice(numbered, problems, lambda each: f"NUMA node {each} is there twice")
    for key, disk in (("disk", node.disk), ("imageDisk", node.image_disk)):
        if disk is None:
            continue
        if disk.size == 0:
            problems.add(("node", key, "size"), "a disk needs a size", "write e.g. 100Gi")
        elif disk.used > disk.size:
            text = f"{disk.used} bytes are more than the disk's {disk.size}"
            problems.add(("node", key, "used"), text, "use less, or make the disk larger")
    if node.cgroup_version == 1 and settings.get("failCgroupV1") is True:
        advice = "write `cgroupVersion: 2`, or `failCgroupV1: false` in `config`"
        text = f"kubelet {scenario.kubelet_version} does not start with cgroups of version 1"
        problems.add(("node", "cgroupVersion"), text, advice)


def _check_plugins(sound: Sound, problems: Problems) -> None:
    plugins: list[tuple[int, Plugin]] = sound.items["plugins"]
    resources = [(("plugins", i, "resource"), plugin.resource) for i, plugin in plugins]
    _twice(resources, problems, lambda name: f"{name} has a plugin already")
    for index, plugin in plugins:
        at: Path = ("plugins", index)
        if not is_extended_resource(plugin.resource):
            text = f"{plugin.resource!r} is no extended resource"
            problems.add((*at, "resource"), text, "write e.g. example.com/gpu")
        ids = [((*at, "devices", n, "id"), each.id) for n, each in enumerate(plugin.devices)]
        _twice(ids, problems, lambda name: f"device {name!r} is there twice")
        _check_numa(sound.scenario, plugin, at, problems)
        _late(sound.scenario, plugin.registers, (*at, "registers"), problems)
        _check_events(sound.scenario, plugin, at, problems)


def _check_numa(scenario: Scenario, plugin: Plugin, at: Path, problems: Problems) -> None:
    if plugin.any_numa or problems.inside(("node", "numaNodes")):
        return
    known = ", ".join(map(str, scenario.node.numa_nodes))
    for number, device in enumerate(plugin.devices):
        nodes = device.numa if isinstance(device.numa, list) else [device.numa]
        for node in nodes:
            if node is not None and node not in scenario.node.numa_nodes:
                text = f"device {device.id!r} is on NUMA node {node}, which the machine has not"
                advice = f"it has {known}: see `node.numaNodes`, or say `anyNuma: true`"
                problems.add((*at, "devices", number, "numa"), text, advice)


def _check_events(scenario: Scenario, plugin: Plugin, at: Path, problems: Problems) -> None:
    known = {device.id for device in plugin.devices}
    times = [((*at, "events", n, "at"), event.at) for n, event in enumerate(plugin.events)]
    _in_order(times, problems)
    for number, event in enumerate(plugin.events):
        path = (*at, "events", number)
        _late(scenario, event.at, (*path, "at"), problems)
        if event.at < plugin.registers:
            problems.add((*path, "at"), "is before the plugin registers", "choose a later time")
        given = _kinds(event)
        if len(given) != 1:
            problems.add(path, "must say one thing that happens",
                         "give one of unhealthy, healthy, crash, register")  # fmt: skip
        for kind, names in (("unhealthy", event.unhealthy), ("healthy", event.healthy)):
            for place, name in enumerate(names or ()):
                if name not in known:
                    text = f"{plugin.resource} has no device {name!r}"
                    problems.add((*path, kind, place), text, suggestion(name, known, "device"))


def _kinds(event: PluginEvent) -> list[str]:
    kinds = {
        "unhealthy": event.unhealthy,
        "healthy": event.healthy,
        "crash": event.crash,
        "register": event.register_,
    }
    return [name for name, value in kinds.items() if value is not None]


def _pins_count(sound: Sound) -> bool:
    """Whether a kubelet of the scenario spares pinned images; unknown versions pass here."""
    restarts = (restart.kubelet_version for _, restart in sound.items["kubeletRestarts"])
    for version in (sound.scenario.kubelet_version, *filter(None, restarts)):
        try:
            if resolve(version).images.pinned_images_kept:
                return True
        except BadQuestionError:
            return True
    return False


def _check_images(sound: Sound, problems: Problems) -> None:
    images = sound.items["images"]
    names = [(("images", i, "name"), image.name) for i, image in images]
    _twice(names, problems, lambda name: f"image {name!r} is there twice")
    ids = [
        (("images", i, "id"), image.id.removeprefix("sha256:")) for i, image in images if image.id
    ]
    _twice(ids, problems, lambda _: "another image has this ID")
    pins_count = _pins_count(sound)
    for index, image in images:
        _late(sound.scenario, image.at, ("images", index, "at"), problems)
        if image.pinned and not pins_count:
            text = f"kubelet {sound.scenario.kubelet_version} knows no pinned images"
            problems.add(("images", index, "pinned"), text, "leave it out, or choose 1.23 or later")
    node = sound.scenario.node
    key, disk = ("imageDisk", node.image_disk) if node.image_disk else ("disk", node.disk)
    taken = sum(image.size for _, image in images if image.at == 0)
    if disk.used <= disk.size < disk.used + taken:
        text = f"images of {taken} bytes do not fit beside the {disk.used} bytes that are used"
        problems.add(("node", key, "size"), text, "make the disk larger, or images smaller")


def _check_disks(sound: Sound, problems: Problems) -> None:
    changes = sound.items["diskChanges"]
    _in_order([(("diskChanges", i, "at"), change.at) for i, change in changes], problems)
    for index, change in changes:
        at: Path = ("diskChanges", index)
        _late(sound.scenario, change.at, (*at, "at"), problems)
        if change.disk == "image" and sound.scenario.node.image_disk is None:
            advice = "write `disk: node`, or give the node an `imageDisk`"
            problems.add((*at, "disk"), "there is no image disk", advice)
        if not change.bytes and not change.per_hour and not problems.inside(at):
            problems.add(at, "changes nothing", "give `bytes` or `perHour`")


def _check_restarts(sound: Sound, problems: Problems) -> None:
    restarts = sound.items["kubeletRestarts"]
    up_ns = 0
    for index, restart in restarts:
        at: Path = ("kubeletRestarts", index)
        _late(sound.scenario, restart.at, (*at, "at"), problems)
        if restart.at < up_ns:
            text = f"there is no kubelet to end before {format_go_duration(up_ns)}"
            problems.add((*at, "at"), text, "put restarts in the order of time, `down` apart")
        up_ns = max(up_ns, restart.at + restart.down)
        if restart.kubelet_version is not None:
            try:
                resolve(restart.kubelet_version)
            except BadQuestionError as error:
                problems.add((*at, "kubeletVersion"), error.message, error.advice)
