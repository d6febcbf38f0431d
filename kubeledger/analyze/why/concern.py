"""Which decisions are about a target, and which of them explains it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import msgspec

from kubeledger.analyze.why.explanation import Target
from kubeledger.kubelet.kube.statuses import containers_of_spec, statuses_in
from kubeledger.model.bodies.images import ImagesDetected
from kubeledger.model.bodies.lifecycle import PodEvicted
from kubeledger.model.record import Record
from kubeledger.replay.episodes.container_runs import ContainerRun
from kubeledger.replay.episodes.subjects import named_within, pods_in, uid_of

_FAILED_PROBE, _NO_PULL = "a_probe_that_failed", "an_image_not_pulled"
_WEIGHTS = (
    "lifecycle.PodEvicted preemption.PodPreempted lifecycle.PodRejected",
    "preemption.PreemptionFailed devicemanager.AllocationFailed cpumanager.CpuAllocationFailed"
    " memorymanager.MemoryAllocationFailed",
    "lifecycle.ContainerRestarted",
    "lifecycle.ContainerKilled oom.ProcessKilled",
    "lifecycle.RestartBackedOff",
    _FAILED_PROBE,
    _NO_PULL,
    "lifecycle.PodAdmitted",
    "images.ImageDeleted images.GarbageCollected devicemanager.DevicesAllocated dra.ClaimPrepared"
    " cpumanager.CpusAllocated memorymanager.MemoryAllocated",
    "prober.ProbeTransitioned",
    "cgroups.CgroupUpdated",
)
"""Kinds of decisions, from what explains most to what explains least."""

_UNPULLED = frozenset({"back_off", "never", "failed", "refused"})
_RANKS = {kind: -row for row, kinds in enumerate(_WEIGHTS) for kind in kinds.split()}
_COLLECTION = "images.GarbageCollected"
_PREFIX_MIN = 6
_POD_ONLY = frozenset({"lifecycle.PodEvicted", "preemption.PodPreempted", "lifecycle.PodRejected"})
_ENDS = frozenset({"lifecycle.ContainerKilled", "oom.ProcessKilled"})
_POD_KILLS = frozenset({"lifecycle.PodEvicted", "preemption.PodPreempted"})


def weight_of(record: Record) -> tuple[int, int, int]:
    """What explains most comes last: an eviction before a kill, a later one before an earlier."""
    word = _word_of(record)
    return _RANKS.get(word, -len(_WEIGHTS)), record.ts_ns, record.seq


def _word_of(record: Record) -> str:
    """The kind of a decision, or what it came to."""
    if getattr(record.body, "to_result", None) == "failure":
        return _FAILED_PROBE
    came_to = {getattr(record.body, name, None) for name in ("decision", "outcome")}
    is_pull = record.kind.startswith("imagepull.")
    return _NO_PULL if is_pull and came_to & _UNPULLED else record.kind


def main_of(
    target: Target, decisions: Sequence[Record], runs: Sequence[ContainerRun], end: int | None
) -> Record:
    """The decision that explains a target.

    What happened to the pod explains a container only if that ended by it, or never had an end of
    its own: a container whose memory ran out did not end because its pod was evicted later.

    Args:
        decisions: (n,) about it, n >= 1.
    """
    own = [record for record in decisions if record.kind not in _POD_ONLY]
    ends = [record.seq for record in own if record.kind in _ENDS]
    ends += [] if end is None else [end]
    main = _first_kill(_ending(max(decisions, key=weight_of), decisions, runs), decisions)
    if target.kind != "container" or main.kind not in _POD_ONLY or not (ends and own):
        return main
    return main if max(ends) > main.seq else max(own, key=weight_of)


def _ending(main: Record, decisions: Sequence[Record], runs: Sequence[ContainerRun]) -> Record:
    """The eviction or preemption that the last end of a container of the pod goes back to.

    Where no kill says so, the preemption that had begun when the pod was chosen for eviction, too.
    """
    if main.kind not in _POD_KILLS:
        return main
    by_kill = {record.seq: record for record in decisions if record.kind in _POD_KILLS}
    last = max(runs, key=lambda run: run.ended_by or 0, default=None)
    if last is not None and last.ended_for in by_kill:
        return by_kill[last.ended_for]
    preempted = [
        record
        for record in decisions
        if record.kind == "preemption.PodPreempted"
        and getattr(record.body, "evicted", None) is not False
        and record.seq < main.seq
    ]
    again = any(
        preempted[-1].seq < record.seq < main.seq
        for record in decisions
        if preempted and record.kind == "lifecycle.PodAdmitted"
    )
    return preempted[-1] if preempted and main.kind == PodEvicted.kind and not again else main


def _first_kill(main: Record, decisions: Sequence[Record]) -> Record:
    """The kill that ended an instance, where it was killed again once no source knew its pod."""
    body: Any = main.body
    if main.kind != "lifecycle.ContainerKilled" or body.reason != "orphaned":
        return main
    instance = (body.container, body.container_id)

    def is_same(record: Record) -> bool:
        its: Any = record.body
        return record.kind == main.kind and (its.container, its.container_id) == instance

    return min(filter(is_same, decisions), key=lambda record: record.seq)


def is_about_pod(record: Record) -> bool:
    """Whether a decision is about a pod as a whole, and ends it."""
    return record.kind in _POD_ONLY


def concerns(target: Target, record: Record, uids: frozenset[str]) -> bool:
    """Whether a decision is about the target.

    Args:
        uids: UIDs under which the target's pod was seen.
    """
    body: Any = record.body
    if target.kind == "image":
        image_id = getattr(body, "image_id", None)
        return record.kind == _COLLECTION or (image_id is not None and is_image(target, image_id))
    if target.kind == "cgroup":
        return getattr(body, "cgroup", None) == target.parts[0]
    if target.kind == "device":
        resource, device = target.parts
        if getattr(body, "resource", None) != resource:
            return False
        return device in (getattr(body, "device_ids", None) or ())
    if target.kind == "pod":
        return _names_pod(body, target.parts, uids)
    if not _names_pod(body, target.parts[:2], uids):
        return False
    container = getattr(body, "container", None)
    return container == target.parts[2] or (container is None and record.kind in _POD_ONLY)


def tells_of(target: Target, record: Record, uids: frozenset[str]) -> bool:
    """Whether any record, not only a decision, is about the target's pod or container."""
    if not _names_pod(record.body, target.parts[:2], uids):
        return False
    container = getattr(record.body, "container", None)
    return target.kind == "pod" or container in {None, target.parts[2]}


def is_about_others(target: Target, record: Record) -> bool:
    """A collection concerns an image only if its finding says why the image was left."""
    return target.kind == "image" and record.kind == _COLLECTION


def is_image(target: Target, image_id: str) -> bool:
    """Whether an image is the one asked about: its ID, or what the ID begins with."""
    asked, known = (text.removeprefix("sha256:") for text in (target.parts[0], image_id))
    return asked == known or (len(asked) >= _PREFIX_MIN and known.startswith(asked))


def _names_pod(body: Any, pod: tuple[str, ...], uids: frozenset[str]) -> bool:  # noqa: ANN401 # any body
    found = list(pods_in(body))
    for named in found:
        if named.pod == pod:
            return named.role != "preemptor_" or not hasattr(body, "victim_pod")
    if found:
        return False
    return uid_of(body) in uids or pod == (getattr(body, "pod", None),)


def mentions(target: Target, record: Record, uids: frozenset[str]) -> bool:
    """Whether a record names the target, be it one of many."""
    body: Any = record.body
    match target.kind:
        case "image":
            listed = body.images if isinstance(body, ImagesDetected) else ()
            return any(is_image(target, each.image_id) for each in listed)
        case "device":
            resource, device = target.parts
            registered = getattr(body, "registered", {}).get(resource, ())
            return concerns(target, record, uids) or device in registered
        case "pod" | "container":
            pod, container = target.parts[:2], (*target.parts, None)[2]
            if container is None and any(named.pod == pod for named in pods_in(body)):
                return True
            return any(
                (each.pod == pod or each.uid in uids) and container in (None, each.container)
                for each in named_within(body)
            )
        case _:
            return concerns(target, record, uids)


def containers_in(part: object) -> Iterator[dict[str, Any]]:
    """The containers of a spec, or those of a status, as the API gives them."""
    if isinstance(part, dict):
        yield from containers_of_spec(part)
        yield from statuses_in(part)


_IDS = ("container_id", "process", "pid", "chosen_pid", "invoked_by")
_OTHERS = frozenset({"cgroup", "task_cgroup", "also_killed", "tasks", "about", "spec"})


@cache
def _fields_of(kind: type[msgspec.Struct]) -> tuple[tuple[str, ...], bool]:
    """Which fields of IDs a kind of body has, and whether it has any other of belongings."""
    there = frozenset(kind.__struct_fields__)
    return tuple(field for field in _IDS if field in there), bool(_OTHERS & there)


def belongings_of(body: Any) -> Iterator[str]:  # noqa: ANN401 # any body
    """Processes, containers, cgroups; volumes, claims, secrets, images of a pod's way or spec."""
    ids, others = _fields_of(body.__class__)
    for field in ids:
        if (value := getattr(body, field)) is not None:
            yield str(value)
    if not others:
        return
    for path in filter(None, (getattr(body, field, None) for field in ("cgroup", "task_cgroup"))):
        yield path
        yield from _CONTAINER_ID.findall(path)
    yield from map(str, getattr(body, "also_killed", ()))
    for task in getattr(body, "tasks", None) or ():
        yield from (str(task.pid), task.process)
    yield from (getattr(body, "about", None) or "").split()
    spec = getattr(body, "spec", None) or {}
    for each in (*(spec.get("volumes") or ()), *(spec.get("resourceClaims") or ())):
        if isinstance(each, dict):
            sources = (part for part in each.values() if isinstance(part, dict))
            yield from _names_in(each, *sources)
    yield from (str(each["image"]) for each in containers_in(spec) if each.get("image"))


_CONTAINER_ID = re.compile(r"[0-9a-f]{64}")
_NAMED_BY = ("name", "claimName", "secretName", "resourceClaimName", "resourceClaimTemplateName")


def _names_in(*parts: dict[str, Any]) -> Iterator[str]:
    for part in parts:
        yield from (part[key] for key in _NAMED_BY if isinstance(part.get(key), str))
