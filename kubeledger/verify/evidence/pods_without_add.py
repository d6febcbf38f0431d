"""Pods that a kubelet lists, and whose arrival is not in its log: lines of it are lost.

A kubelet learns of each of its pods by a config line (``SyncLoop ADD``), after a restart once
more. Where a log begins with its process and shows other pods, the line of a pod that the
kubelet's own list shows was there, too; unless the pod was created after the end of the log, as
where a list was read later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from kubeledger.kubelet.lifecycle.state import TERMINAL_PHASES
from kubeledger.model.bodies.lifecycle import PodConfigChanged, PodListed
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S

_READ_NS = 10 * NS_PER_S
"""A list may be of the process before, or after, if it was read so near to a start."""


class PodWithoutAdd(NamedTuple):
    """A pod whose config line is missing, and the kubelet process of which it is missing.

    Attributes:
        seq: the list that shows it.
        from_ts_ns, to_ts_ns: of the process; None: to the end.
    """

    seq: int
    name: str
    from_ts_ns: int
    to_ts_ns: int | None


class PodsWithoutAdd:
    """Gathered in the first reading, in any order."""

    KINDS: tuple[type[Body], ...] = (KubeletStarted, PodConfigChanged, PodListed)
    """Kinds of the records that this needs."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._starts: list[tuple[int, bool]] = []
        self._last_line_ns = 0
        self._adds: dict[str, list[int]] = {}
        self._listed: dict[tuple[str | None, str], list[tuple[int, int]]] = {}
        self._created: dict[tuple[str | None, str], int] = {}

    def note(self, record: Record) -> None:
        """Take in a record; one of another kind changes nothing."""
        match record.body:
            case KubeletStarted() as body:
                self.logged(record.ts_ns)
                self._starts.append((record.ts_ns, body.from_start))
            case PodConfigChanged(operation="REMOVE"):
                self.logged(record.ts_ns)
            case PodConfigChanged() as body:
                self.logged(record.ts_ns)
                for key in _keys(body.pod_uid, f"{body.namespace}/{body.pod}"):
                    self._adds.setdefault(key, []).append(record.ts_ns)
            case PodListed() as body if body.listed_by == "kubelet" and not body.gone:
                if (body.status or {}).get("phase") not in TERMINAL_PHASES:
                    pod = body.pod_uid, f"{body.namespace}/{body.pod}"
                    self._listed.setdefault(pod, []).append((record.ts_ns, record.seq))
                    if body.created_ts_ns is not None:
                        self._created[pod] = body.created_ts_ns

    def logged(self, ts_ns: int) -> None:
        """The log has a line of that time."""
        self._last_line_ns = max(self._last_line_ns, ts_ns)

    def found(self) -> Iterator[PodWithoutAdd]:
        """The pods, one a process at most for each."""
        starts: list[tuple[int, bool] | None] = [*sorted(self._starts), None]
        for start, following in pairwise(starts):
            assert start is not None
            began_ns, from_start = start
            end_ns = following[0] if following is not None else None
            if not from_start or not _any_in(began_ns, end_ns, *self._adds.values()):
                continue
            last_ns = None if end_ns is None else end_ns - _READ_NS
            for (uid, name), listed in sorted(self._listed.items(), key=lambda pod: pod[1]):
                if self._created.get((uid, name), 0) > self._last_line_ns:
                    continue
                seqs = [seq for ts_ns, seq in listed if _is_in(ts_ns, began_ns + _READ_NS, last_ns)]
                adds = [self._adds.get(key, []) for key in _keys(uid, name)]
                if seqs and not _any_in(began_ns, end_ns, *adds):
                    yield PodWithoutAdd(min(seqs), name, began_ns, end_ns)


def _keys(uid: str | None, name: str) -> Iterable[str]:
    return (name,) if uid is None else (uid, name)


def _is_in(ts_ns: int, first_ns: int, end_ns: int | None) -> bool:
    return first_ns <= ts_ns and (end_ns is None or ts_ns < end_ns)


def _any_in(first_ns: int, end_ns: int | None, *times: Sequence[int]) -> bool:
    return any(_is_in(ts_ns, first_ns, end_ns) for each in times for ts_ns in each)
