"""IDs that only the line of a start tells, where another container of the pod must be meant.

A log that tells of cgroups and sandboxes (verbosity 3 and more) names each container more than
once when it begins, each kubelet process anew. Where one start alone names a container of
which nothing else tells, and the start of one that began then in the same pod is not told, the
line means that one. Where several are told once, lines are missing, or the log is terse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubeledger.importers.instances import Instance
from kubeledger.importers.stray_ids import Telling
from kubeledger.units import NS_PER_S

__all__ = ["replaced_starts"]

_BEFORE_NS = 60 * NS_PER_S
"""The sync loop may have been busy for so long before it read of the start."""
_AFTER_NS = NS_PER_S
_ENDS = frozenset({"died", "ending"})
_RELISTED = frozenset({"started", "died"})
_RELIST_NS = NS_PER_S


def replaced_starts(tellings: Iterable[Telling], listed: Mapping[str, Instance]) -> dict[str, str]:
    """The one ID that a single start tells, if one other container must be meant -> that.

    Args:
        tellings: what the lines about starts and ends tell.
        listed: container ID -> what pod lists tell of it.
    """
    told: dict[str, list[Telling]] = {}
    for each in sorted(set(tellings)):
        told.setdefault(each.container_id, []).append(each)
    relists = _first_relists(told)
    single = [
        lines[0]
        for container_id, lines in told.items()
        if len(lines) == 1
        and container_id not in listed
        and lines[0].kind != "other"
        and not (lines[0].kind == "died" and lines[0].ts_ns <= relists[lines[0].pid])
    ]
    if len(single) != 1 or single[0].kind != "started" or not single[0].pod:
        return {}
    (stray,) = single
    found = [
        container_id
        for container_id in dict.fromkeys((*told, *sorted(listed)))
        if container_id != stray.container_id
        and _pod_of(container_id, told, listed) == stray.pod
        and _may_be(stray, told.get(container_id, []), listed.get(container_id))
    ]
    return {stray.container_id: found[0]} if len(found) == 1 else {}


def _first_relists(told: Mapping[str, list[Telling]]) -> dict[str, int]:
    """Kubelet process -> when its first relist is over, which tells of all that had ended."""
    first: dict[str, int] = {}
    for each in (each for lines in told.values() for each in lines if each.kind in _RELISTED):
        first[each.pid] = min(first.get(each.pid, each.ts_ns), each.ts_ns)
    return {pid: ts_ns + _RELIST_NS for pid, ts_ns in first.items()}


def _pod_of(
    container_id: str, told: Mapping[str, list[Telling]], listed: Mapping[str, Instance]
) -> str:
    if container_id in listed:
        return listed[container_id].pod_uid
    return next((each.pod for each in told[container_id] if each.pod), "")


def _may_be(stray: Telling, told: list[Telling], listed: Instance | None) -> bool:
    """Whether a container began then, and no other line of the process tells that it started."""
    if any(each.kind == "started" and each.pid == stray.pid for each in told):
        return False
    if any(each.kind in _ENDS and each.ts_ns < stray.ts_ns for each in told):
        return False
    times = [each.ts_ns for each in told]
    return any(-_BEFORE_NS <= ts_ns - stray.ts_ns <= _AFTER_NS for ts_ns in times)
