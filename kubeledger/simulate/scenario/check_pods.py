"""Contradictions of pods: twice, unknown images, scripts of what is not there, times."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from kubeledger.kubelet.kube.keys import name_key
from kubeledger.model.units import format_go_duration
from kubeledger.simulate.scenario.models_pods import Container, Pods, Probe
from kubeledger.simulate.scenario.pod_check import check_pod, containers_of, name_of, probes_of
from kubeledger.simulate.scenario.problems import Path, Problems, suggestion
from kubeledger.simulate.scenario.validate import Sound

__all__ = ["PodGroup", "check_pods", "replica_suffixes"]

PodGroup = tuple[int, list[tuple[Any, Path]]]
"""Index of an entry of ``pods``, and its manifests with their places."""


def replica_suffixes(pods: Pods) -> list[str]:
    """What the names of an entry's replicas end with."""
    return [f"-{number}" for number in range(pods.replicas)] if pods.replicas > 1 else [""]


def check_pods(sound: Sound, groups: list[PodGroup] | Any, problems: Problems) -> None:  # noqa: ANN401
    """Note all that is wrong with pods and their scripts."""
    entries = dict(sound.items["pods"])
    for index, manifests in groups:
        for manifest, path in manifests:
            check_pod(manifest, path, problems)
            _check_images(sound, entries[index], manifest, path, problems)
        _check_times(sound, entries[index], ("pods", index), problems)
        _check_scripts(sound, entries[index], (index, manifests), problems)
        _check_updates(sound, entries[index], (index, manifests), problems)
    _check_twice(entries, groups, problems)


def _check_twice(entries: dict[int, Pods], groups: list[PodGroup], problems: Problems) -> None:
    """Pods of one name; one that is gone before the next comes is no contradiction."""
    intervals: dict[str, list[tuple[int, int | None, Path]]] = {}
    uids: dict[str, Path] = {}
    for index, manifests in groups:
        pods = entries[index]
        for manifest, path in manifests:
            names = name_of(manifest)
            if names is None:
                continue
            for number, suffix in enumerate(replica_suffixes(pods)):
                key = name_key(names[0], names[1] + suffix)
                begin = pods.arrives + number * pods.every
                intervals.setdefault(key, []).append(
                    (begin, pods.deleted, (*path, "metadata", "name"))
                )
            uid = str(manifest["metadata"].get("uid") or "")
            if uid and (uid in uids or pods.replicas > 1):
                advice = "leave the UID out: it is drawn from the seed"
                problems.add((*path, "metadata", "uid"), f"UID {uid} is there twice", advice)
            uids.setdefault(uid, path)
    for key, found in intervals.items():
        found.sort(key=lambda interval: interval[0])
        for (_, gone, first), (begin, _, path) in pairwise(found):
            if gone is None or gone >= begin:
                line = problems.place(first).line
                advice = f"rename it, or delete the one in line {line} before it arrives"
                problems.add(path, f"pod {key} is there twice", advice)


def _check_images(
    sound: Sound, pods: Pods, manifest: object, path: Path, problems: Problems
) -> None:
    if sound.scenario.images is None or "images" in sound.incomplete:
        return  # all exist; or the fault is reported
    known = {image.name: image for _, image in sound.items["images"]}
    for container, place, _ in containers_of(manifest):
        name = container.get("image")
        at = (*path, *place, "image")
        if not isinstance(name, str) or not name:
            continue
        if name not in known:
            advice = f"add it to `images`; {suggestion(name, known, 'image')}"
            problems.add(at, f"unknown image {name!r}", advice)
        elif known[name].at > pods.arrives:
            text = (
                f"image {name!r} comes at {format_go_duration(known[name].at)}, its pod before it"
            )
            problems.add(at, text, "let the pod arrive later: containers do not pull")


def _check_updates(sound: Sound, pods: Pods, group: PodGroup, problems: Problems) -> None:
    known = {image.name: image for _, image in sound.items["images"]}
    found = (c.get("name") for manifest, _ in group[1] for c, _, _ in containers_of(manifest))
    names = {name for name in found if isinstance(name, str)}
    before = pods.arrives + (pods.replicas - 1) * pods.every
    for number, update in enumerate(pods.updates):
        at: Path = ("pods", group[0], "updates", number)
        _late(sound, update.at, (*at, "at"), problems)
        if update.at <= before or (pods.deleted is not None and update.at >= pods.deleted):
            text = f"is at {format_go_duration(update.at)}, not after what comes before it"
            problems.add(
                (*at, "at"), text, "choose a time between the pod's arrival and its deletion"
            )
        before = max(before, update.at)
        for name, image in update.images.items():
            path = (*at, "images", name)
            if name not in names:
                advice = suggestion(name, names, "container")
                problems.add(path, f"the pod has no container {name!r}", advice)
            if sound.scenario.images is None or "images" in sound.incomplete:
                continue
            if image not in known or known[image].at > update.at:
                advice = f"add it to `images`; {suggestion(image, known, 'image')}"
                problems.add(path, f"unknown image {image!r} at that time", advice)


def _check_times(sound: Sound, pods: Pods, at: Path, problems: Problems) -> None:
    last = pods.arrives + (pods.replicas - 1) * pods.every
    _late(sound, last, (*at, "arrives" if last == pods.arrives else "every"), problems)
    if pods.deleted is None:
        return
    _late(sound, pods.deleted, (*at, "deleted"), problems)
    if pods.deleted <= last:
        text = f"is at {format_go_duration(pods.deleted)}, not after it arrives at"
        problems.add((*at, "deleted"), f"{text} {format_go_duration(last)}", "choose a later time")


def _late(sound: Sound, at_ns: int, path: Path, problems: Problems) -> None:
    end_ns = sound.scenario.duration
    if at_ns > end_ns:
        text = f"is at {format_go_duration(at_ns)}, after the end at {format_go_duration(end_ns)}"
        problems.add(path, text, "choose an earlier time, or a longer `duration`")


def _check_scripts(sound: Sound, pods: Pods, group: PodGroup, problems: Problems) -> None:
    at: Path = ("pods", group[0], "containers")
    found: dict[str, list[dict[str, Any]]] = {}
    for manifest, _ in group[1]:
        for container, _, _ in containers_of(manifest):
            if isinstance(name := container.get("name"), str):
                found.setdefault(name, []).append(container)
    for name, script in pods.containers.items():
        here = (*at, name)
        if name not in found:
            advice = suggestion(name, found, "container")
            problems.add(here, f"the pod has no container {name!r}", advice)
        for kind in ("liveness", "readiness", "startup"):
            probe: Probe | None = getattr(script.probes, kind)
            if probe is None:
                continue
            if name in found and not any(kind in probes_of(each) for each in found[name]):
                text = f"container {name!r} has no {kind} probe"
                advice = f"add `{kind}Probe:` to it, or take the script away"
                problems.add((*here, "probes", kind), text, advice)
            _check_probe(sound, probe, (*here, "probes", kind), problems)
        _check_script(sound, script, here, problems)


def _check_script(sound: Sound, script: Container, at: Path, problems: Problems) -> None:
    if script.exits_repeat and not script.exits:
        problems.add((*at, "exitsRepeat"), "there is nothing to repeat", "give `exits`")
    before = -1
    for number, use in enumerate(script.usage):
        path = (*at, "usage", number, "from")
        _late(sound, use.from_, path, problems)
        if use.from_ <= before:
            problems.add(path, "is not after the one before it", "put them in the order of time")
        before = max(before, use.from_)


def _check_probe(sound: Sound, probe: Probe, at: Path, problems: Problems) -> None:
    given = [key for key in ("steps", "fails", "flaps") if getattr(probe, key) is not None]
    if len(given) != 1:
        what = f"has {' and '.join(given)}" if given else "says nothing"
        problems.add(at, what, "give one of steps, fails, flaps")
    end_ns = before = -1
    for number, step in enumerate(probe.steps or ()):
        path = (*at, "steps", number, "from")
        _late(sound, step.from_, path, problems)
        if step.from_ <= before:
            problems.add(path, "is not after the step before it", "put them in the order of time")
        before = max(before, step.from_)
    many = isinstance(probe.fails, list)
    for number, span in enumerate(probe.fails if isinstance(probe.fails, list) else [probe.fails]):
        if span is None:
            continue
        path = (*at, "fails", number, "from") if many else (*at, "fails", "from")
        _late(sound, span.from_, path, problems)
        if span.from_ <= end_ns:
            problems.add(path, "begins before the failure before it ends", "keep them apart")
        end_ns = span.from_ + span.for_ if span.for_ is not None else 2**63
