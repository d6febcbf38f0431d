"""What a kubelet does again and again, its sync loop first of all, and where that is missing."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Final

import msgspec

from kubeledger.kubelet.lifecycle.state import TERMINAL_PHASES
from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerStarted,
    PodAdmitted,
    PodConfigChanged,
    PodListed,
    PodRejected,
)
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.evidence.times import Times

_SLACK_NS = 15 * NS_PER_S
"""Work that takes long puts a activity off; what comes later than this does not follow from it."""


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which occurrences are missing."""

    activity: str
    period_ns: int
    from_ts_ns: int
    to_ts_ns: int
    missing: int


class _Run(msgspec.Struct):
    """Occurrences between which none is missing: the first, the last, and how many."""

    first_ns: int
    last_ns: int
    count: int = 1


class PeriodicActivity(msgspec.Struct):
    """One regular act. Memory grows with its gaps, not with its occurrences.

    Attributes:
        longest_ns: the longest step between two of which the later follows.
    """

    name: str
    period_ns: int
    longest_ns: int = 0
    _runs: list[_Run] = []

    def note(self, ts_ns: int) -> bool:
        """It was seen, in any order; whether it counts: a second holds one activity."""
        run = self._runs[-1] if self._runs else None
        step_ns = -1 if run is None else ts_ns - run.last_ns
        if 0 <= step_ns < NS_PER_S:
            return False
        if run is not None and 0 <= step_ns <= self._step_max_ns:
            run.last_ns, run.count = ts_ns, run.count + 1
            self.longest_ns = max(self.longest_ns, step_ns)
        else:
            self._runs.append(_Run(ts_ns, ts_ns))
        return True

    @property
    def _step_max_ns(self) -> int:
        return max(self.period_ns * 3 // 2, self.period_ns + _SLACK_NS)

    @property
    def is_regular(self) -> bool:
        """Whether most occurrences follow on another; else nothing can be said of those missing."""
        follow = sum(run.count - 1 for run in self._runs)
        return follow > 0 and follow >= len(self._runs) - 1

    def ends(self) -> tuple[int, int] | None:
        """The first and the last activity; None without any."""
        if not self._runs:
            return None
        return min(r.first_ns for r in self._runs), max(r.last_ns for r in self._runs)

    def gaps(self, begin_ns: int | None = None, end_ns: int | None = None) -> list[Gap]:
        """Times without it, in order.

        Args:
            begin_ns: when it began to be due; None: with the first one.
            end_ns: until when it was due; None: until the last one.
        """
        runs = sorted((run.first_ns, run.last_ns) for run in self._runs)
        if begin_ns is not None:
            runs.insert(0, (begin_ns, begin_ns))
        if end_ns is not None:
            runs.append((end_ns, end_ns))
        found: list[Gap] = []
        last_ns = runs[0][1] if runs else 0
        for _, (first_ns, until_ns) in pairwise(runs):
            if first_ns - last_ns > self._step_max_ns:
                missing = max(1, round((first_ns - last_ns) / self.period_ns) - 1)
                ends = {"from_ts_ns": last_ns, "to_ts_ns": first_ns, "missing": missing}
                found.append(Gap(activity=self.name, period_ns=self.period_ns, **ends))
            last_ns = max(last_ns, until_ns)
        return found


# The iterations of a kubelet's sync loop: which pods one line adds, and when the loop continues.
#
# The loop takes one thing after the other. While the victims of a critical pod are killed nothing
# else is admitted, synced for the first time or logged: the death of a container in that time is
# logged only after it, though the pod's own worker has known it long before.
#
# Source: v1.36.2 pkg/kubelet/preemption/preemption.go evictPodsToFreeRequests; v1.20.2

SETTLING_NS: Final = 30 * NS_PER_S
"""After this long the kubelet has handled every pod that a config source added."""
_BURST_NS: Final = 2 * NS_PER_S
"""So long after a wait the loop shows what happened meanwhile."""


class LoopIterations:
    """The sync loops of a node, from the first reading."""

    def __init__(self, times: Times) -> None:
        self._times = times
        names = ("config", "relists", "preempted", "pleg")
        self._noted: dict[str, set[int]] = {name: set() for name in names}
        self._sorted: dict[str, list[int]] = {name: [] for name in names}
        self._waits: list[tuple[int, int]] = []
        self._waits_on_ns: int | None = None
        self._unbroken_from: Callable[[int], int] = lambda _: 0

    KINDS: tuple[type[Body], ...] = (
        ContainerDied,
        ContainerStarted,
        PodAdmitted,
        PodConfigChanged,
        PodPreempted,
        PodRejected,
    )

    def note(self, record: Record) -> None:
        body = record.body
        if isinstance(body, ContainerDied | ContainerStarted):
            self._noted["pleg"].add(record.ts_ns)
        if isinstance(body, PodConfigChanged):
            self._noted["config"].add(record.ts_ns)
            self._noted["relists"].add(record.ts_ns)
        elif isinstance(body, PodPreempted):
            self._noted["preempted"].add(record.ts_ns)
        elif not (isinstance(body, PodAdmitted) and body.inferred):
            self._noted["relists"].add(record.ts_ns)

    def forget(self, before_ns: int) -> None:
        """Nobody asks for earlier times; the last one before says that some was."""
        for what in ("config", "relists", "pleg"):
            times = self._noted[what]
            last_ns = max((ts_ns for ts_ns in times if ts_ns < before_ns), default=before_ns)
            self._noted[what] = {ts_ns for ts_ns in times if ts_ns >= last_ns}

    def settle(self, unbroken_from: Callable[[int], int]) -> None:
        """Find the turns by all that was noted; see :meth:`Coverage.unbroken_from`."""
        self._unbroken_from = unbroken_from
        self._sorted = {name: sorted(times) for name, times in self._noted.items()}
        self._waits, self._waits_on_ns, relists = [], None, self._sorted["relists"]
        for ts_ns in self._sorted["preempted"]:
            if self._waits and ts_ns <= self._waits[-1][1]:
                continue
            before, after = bisect_left(relists, ts_ns), bisect_right(relists, ts_ns)
            since_ns = relists[before - 1] if before else ts_ns
            until_ns = relists[after] if after < len(relists) else ts_ns
            if after == len(relists) and self._waits_on_ns is None:
                self._waits_on_ns = since_ns
            self._waits.append((since_ns, until_ns + _BURST_NS))

    def let_go(self) -> None:
        for times in self._noted.values():
            times.clear()

    def over_by(self, ts_ns: int) -> int | None:
        """When the turn that begins at a time was surely over; None when nothing says.

        The next config line is another turn. Without one, half a minute is enough, unless
        victims are killed meanwhile.
        """
        config, preempted = self._sorted["config"], self._sorted["preempted"]
        index = bisect_right(config, ts_ns)
        next_ns = config[index] if index < len(config) else None
        latest_ns = ts_ns + SETTLING_NS
        if next_ns is not None and next_ns <= latest_ns:
            return next_ns
        waits = any(ts_ns <= each <= latest_ns for each in preempted)
        return next_ns if waits else latest_ns

    def is_first(self, started_ns: int, ts_ns: int) -> bool:
        """Whether the first relist since a time told it."""
        pleg = self._sorted["pleg"]
        index = bisect_left(pleg, started_ns)
        return index == len(pleg) or not self._times.apart(pleg[index], ts_ns)

    def waits_on(self, ts_ns: int) -> bool:
        """Whether the loop waits at a time, and the log ends before it says what it missed."""
        return self._waits_on_ns is not None and ts_ns >= self._waits_on_ns

    def earliest(self, ts_ns: int) -> int:
        """When that can have happened at the earliest which the loop shows at a time."""
        for since_ns, until_ns in self._waits:
            if since_ns <= ts_ns <= until_ns:
                ts_ns = since_ns
                break
        return 0 if self._is_first(ts_ns) else self._times.told(ts_ns).from_ns

    def _is_first(self, ts_ns: int) -> bool:
        """Whether the loop shows nothing before it since lines are missing: it may have waited."""
        from_ns, relists = self._unbroken_from(ts_ns), self._sorted["relists"]
        index = bisect_left(relists, from_ns)
        shown = index < len(relists) and relists[index] < ts_ns - _BURST_NS
        return from_ns > 0 and not shown


# Pods that a kubelet lists, or preempts, and whose arrival is not in its log: lines of it are lost.
#
# A kubelet learns of each of its pods by a config line (``SyncLoop ADD``), after a restart once
# more. Where a log begins with its process and shows other pods, the line of a pod that the
# kubelet's own list shows was there, too; unless the pod was created after the end of the log, as
# where a list was read later.

_GONE = ""
_NEVER = 1 << 62
_Pod = tuple[str | None, str]
_READ_NS = 10 * NS_PER_S
"""A list may be of the process before, or after, if it was read so near to a start; a line not."""


class PodsWithoutAdd:
    """Gathered in the first reading, in any order."""

    KINDS: tuple[type[Body], ...] = (KubeletStarted, PodConfigChanged, PodListed, PodPreempted)

    def __init__(self) -> None:
        self._starts: list[tuple[int, bool]] = []
        self._last_line_ns = 0
        self._adds: dict[str, list[int]] = {}
        self._lists: set[int] = set()
        # A list that shows a pod no more stands there without its record.
        self._listed: dict[_Pod, list[tuple[int, int]]] = {}
        self._victims: dict[_Pod, list[tuple[int, int]]] = {}
        self._created: dict[_Pod, int] = {}
        self._found: dict[int, dict[str, int]] = {}

    def note(self, record: Record) -> None:
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
            case PodListed() as body if body.listed_by == "kubelet":
                self._lists.add(record.ts_ns)
                pod = body.pod_uid, f"{body.namespace}/{body.pod}"
                is_over = body.gone or (body.status or {}).get("phase") in TERMINAL_PHASES
                row = record.ts_ns, 0 if is_over else record.seq
                self._listed.setdefault(pod, []).append(row)
                if body.created_ts_ns is not None and not is_over:
                    self._created[pod] = body.created_ts_ns
            case PodPreempted() as body:
                pod = body.victim_uid, f"{body.victim_namespace}/{body.victim_pod}"
                self._victims.setdefault(pod, []).append((record.ts_ns, record.seq))

    def forget(self, gone: Collection[str]) -> None:
        """Nobody asks for some pods any more, by their UIDs; what the log lacks is still known."""
        for seq, name, began_ns, _ in self.found() if gone else ():
            self._found.setdefault(began_ns, {})[name] = seq
        for known in (self._listed, self._victims, self._created):
            for key in [key for key in known if key[0] in gone]:
                del known[key]
        came = {ts_ns for uid in gone for ts_ns in self._adds.pop(uid, ())}
        if came:
            left = {of: [ts for ts in times if ts not in came] for of, times in self._adds.items()}
            self._adds = {name: times for name, times in left.items() if times}
            self._adds[_GONE] = [max(came)]

    def logged(self, ts_ns: int) -> None:
        self._last_line_ns = max(self._last_line_ns, ts_ns)

    def found(self) -> Iterator[tuple[int, str, int, int | None]]:
        """Record that shows a pod, its name, and the process that has no line: from when, to when.

        None: to the end. For each pod one a process at most.
        """
        lists, starts = sorted(self._lists), [*sorted(self._starts), (_NEVER, True)]
        pods = {**self._listed, **self._victims}
        shown = [(self._spans(pod), self._victims.get(pod, []), pod) for pod in pods]
        shown.sort(key=itemgetter(0, 1))
        for (began_ns, from_start), (end_ns, _) in pairwise(starts):
            to_ns = None if end_ns == _NEVER else end_ns
            found = self._found.get(began_ns, {})
            for name, seq in found.items():
                yield seq, name, began_ns, to_ns
            if not from_start or not _any_in(began_ns, end_ns, *self._adds.values()):
                continue
            for spans, killed, (uid, name) in shown:
                if name in found or self._created.get((uid, name), 0) > self._last_line_ns:
                    continue
                seqs = [seq for ts_ns, seq in killed if began_ns <= ts_ns < end_ns]
                for from_ns, until_ns, seq in spans:
                    index = bisect_left(lists, max(from_ns, began_ns + _READ_NS))
                    last_ns = min(until_ns, end_ns - _READ_NS)
                    seqs += [seq] if index < len(lists) and lists[index] < last_ns else []
                adds = [self._adds.get(key, []) for key in _keys(uid, name)]
                if seqs and not _any_in(began_ns, end_ns, *adds):
                    yield min(seqs), name, began_ns, to_ns

    def _spans(self, pod: _Pod) -> list[tuple[int, int, int]]:
        """From which list until before which it is there: only what changed has a record."""
        rows = sorted([*self._listed.get(pod, ()), (_NEVER, 0)])
        return [(at_ns, to_ns, seq) for (at_ns, seq), (to_ns, _) in pairwise(rows) if seq]


def _keys(uid: str | None, name: str) -> Iterable[str]:
    return (name,) if uid is None else (uid, name)


def _any_in(first_ns: int, end_ns: int, *times: Sequence[int]) -> bool:
    return any(first_ns <= ts_ns < end_ns for each in times for ts_ns in each)
