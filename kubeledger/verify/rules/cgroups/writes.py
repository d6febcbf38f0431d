"""The kubelet's writes of the QoS level: when each was due, and which sums explain it.

A write is due once a minute from the start of the QoS container manager on, when a pod is
first synced (before its cgroup is made), and after a pod was killed. All of them are known from
the first reading, so that each is explained by the records before and after it.

Source: v1.36.2 pkg/kubelet/cm/qos_container_manager_linux.go Start, pkg/kubelet/kubelet.go SyncPod
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from operator import add
from typing import Final

import msgspec

from kubeledger.kubelet.cgroups.node_config import qos_requests
from kubeledger.kubelet.kube.pod import Pod, lists_of_pods
from kubeledger.kubelet.kube.podclass import is_static_pod
from kubeledger.kubelet.kube.quantity import QuantityError
from kubeledger.kubelet.kube.resources import check_asked
from kubeledger.kubelet.profile.cgroups import CgroupFacts
from kubeledger.model.bodies.cgroups import QOSCgroupsUpdated, QOSReserveComputed
from kubeledger.model.errors import BadInputError
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.pod_intervals import PodActiveInterval
from kubeledger.verify.evidence.pods import ListedPod
from kubeledger.verify.evidence.processes import Process
from kubeledger.verify.rules.cgroups.options import Rules
from kubeledger.verify.rules.cgroups.pods import differing_resources

_MOST_SUMS: Final = 4096
"""More sums than this are any sum."""
_KEPT_MAX: Final = 1024
_SUMS_KEPT_MAX: Final = 8
"""From one write to the next mostly the same pods are doubtful."""

Amounts = tuple[int, ...]
"""Millicores of Burstable pods, bytes of Guaranteed and of Burstable pods; or some of these."""
_NOTHING: Final = (0, 0, 0)
_CPU: Final = slice(0, 1)
_MEMORY: Final = slice(1, 3)


class Sums(msgspec.Struct, frozen=True):
    """Sums over the pods that can have been active.

    Attributes:
        usual: over those that were most likely.
        cpu: all that Burstable pods can have requested, in millicores, that of ``usual`` first;
            empty where there are too many.
        memory: the same of bytes of Guaranteed and Burstable pods.
        pods: how many pods ``usual`` is over.
        parts: ``namespace/name`` of those that request CPU -> millicores.
        missing: what must be known for more; then the sums say nothing.
        unknown: what may differ, so that another sum than these may be right.
    """

    usual: Amounts
    cpu: list[int]
    memory: list[Amounts]
    pods: int
    parts: dict[str, int]
    inputs: tuple[int, ...]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]


class Summer:
    """Sums what active pods request."""

    def __init__(
        self, context: VerifyContext, resized_ns: Mapping[str | None, Sequence[int]]
    ) -> None:
        """``resized_ns``: when pods were resized, as lines tell it."""
        self._context = context
        self._resized_ns = resized_ns

    def between(self, start_ns: int, end_ns: int, rules: Rules) -> Sums:
        """The sums of a write at some instant of a span."""
        active = self._context.timeline.active(start_ns, end_ns)
        sure, perhaps, usual = list[Amounts](), list[Amounts](), dict[str, Amounts]()
        inputs, missing = list[int](), list[str]()
        unknown = [] if active.loss is None else [active.loss.phrase]
        certain = {interval.full_name for interval in active.must.values()}
        static = {interval.full_name for interval in active.may.values() if interval.is_static}
        for key, interval in active.may.items():
            listed = self._context.pods.at(end_ns, interval.uid, interval.namespace, interval.name)
            if interval.full_name in static and not (interval.is_static or _is_static(listed)):
                continue  # the API's image of a static pod
            if listed is None and interval.is_static:  # its image in the API has its spec
                listed = self._context.pods.at(end_ns, None, interval.namespace, interval.name)
                listed = None if _is_static(listed) else listed  # the pod of another manifest
            requests = None if listed is None else _requests(listed, rules.profile.cgroups)
            if requests is None or listed is None:
                named = f"the spec of pod {interval.full_name}"
                (missing if key in active.must else unknown).append(named)
                continue
            if rules.resizes(listed) and self._was_resized(listed, start_ns):
                unknown.append(f"the resources that pod {interval.full_name} had then")
            over = interval.ended_ns is not None and interval.ended_ns <= end_ns
            is_double = interval.start_time_unknown and interval.full_name in certain
            if not (interval.returned or over or is_double):
                usual[key] = requests
            if requests != _NOTHING:
                inputs.append(listed.seq)
                (sure if key in active.must else perhaps).append(requests)
        likely, least = _total(usual.values()), _total(sure)
        asking = {active.may[key].full_name: amounts[0] for key, amounts in usual.items()}
        return Sums(
            likely,
            [milli for (milli,) in _subsets(_CPU, likely, least, perhaps)],
            _subsets(_MEMORY, likely, least, perhaps),
            len(usual),
            {name: milli for name, milli in sorted(asking.items()) if milli},
            tuple(inputs),
            tuple(missing),
            tuple(unknown),
        )

    def _was_resized(self, listed: ListedPod, start_ns: int) -> bool:
        """Whether the lists around show other resources, so that it may have had any between.

        So may a pod that was changed since a time, and before any list; or after the last.
        """
        told = self._resized_ns.get(listed.uid, ())
        resized = any(listed.ts_ns < at_ns <= start_ns + PERIOD_NS for at_ns in told)
        if resized or self._context.pods.changed_unseen(start_ns, listed):
            return True
        versions = self._context.pods.versions(listed)
        at = versions.index(listed) if listed in versions else 0
        around = versions[max(at - 1, 0) : at + 2]
        return any(differing_resources(*pair) is not None for pair in pairwise(around))


@lru_cache(maxsize=_KEPT_MAX)
def _requests(listed: ListedPod, facts: CgroupFacts) -> Amounts | None:
    """What a pod requests; None where its spec cannot be read."""
    try:
        pods = (listed.as_(Pod),)
        check_asked(lists_of_pods(pods))
        return msgspec.structs.astuple(qos_requests(pods, facts))
    except (msgspec.ValidationError, BadInputError, QuantityError):
        return None


def _is_static(listed: ListedPod | None) -> bool:
    """Whether a list shows a static pod itself, whose UID is of its manifest."""
    pod = None if listed is None or listed.is_manifest else listed.pod
    return pod is not None and is_static_pod(pod)


def _total(amounts: Iterable[Amounts]) -> Amounts:
    return tuple(sum(each) for each in zip(_NOTHING, *amounts, strict=True))


def _subsets(of: slice, usual: Amounts, sure: Amounts, perhaps: list[Amounts]) -> list[Amounts]:
    """Each sum with some of the doubtful pods, the usual one first; empty where too many."""
    doubtful = Counter(amounts[of] for amounts in perhaps)
    possible = _sums(sure[of], tuple(sorted(doubtful.items())))
    return [usual[of], *sorted(possible - {usual[of]})] if possible else []


@lru_cache(maxsize=_SUMS_KEPT_MAX)
def _sums(sure: Amounts, doubtful: tuple[tuple[Amounts, int], ...]) -> frozenset[Amounts]:
    """Each sum with some of the doubtful amounts, of which there are so many; none: too many."""
    possible = {sure}
    for amounts, count in doubtful:
        added = possible
        for _ in range(count):
            added = {tuple(map(add, each, amounts)) for each in added} - possible
            possible |= added
            if len(possible) > _MOST_SUMS:
                return frozenset()
            if not added:
                break
    return frozenset(possible)


PERIOD_NS: Final = 60 * NS_PER_S
_OFF_NS: Final = NS_PER_S
"""A tick may be so late, and the next on time again."""
_LOGGED_NS: Final = NS_PER_S
"""A write is logged so soon after the pods that it counts."""
_RETRIES_NS: Final = 300 * NS_PER_S
_KILLED_NS: Final = 10 * NS_PER_S
"""So long after the last sign of an end the QoS level is written for it."""
_GRACE_NS: Final = 60 * NS_PER_S
"""The same where nothing says that its containers have ended."""
_TRIED: Final = 8
_ASKED_NS: Final = 60 * PERIOD_NS
"""As far back what explains a write, and what it left, is looked for."""


class Write(msgspec.Struct):
    """One write of the QoS level.

    Attributes:
        failed: the kernel refused some of it.
        reserves: QoS class -> (seq, bytes, percent) as logged right before it.
        explained: what it was due for; empty where nothing explains it.
    """

    seq: int
    ts_ns: int
    failed: bool
    reserves: dict[str, tuple[int, int, int]] = {}
    explained: str = ""
    inputs: tuple[int, ...] = ()

    def due(self, why: str, *inputs: int) -> None:
        self.explained, self.inputs = why, inputs


class Writes:
    """All writes of a node.

    Attributes:
        all: in the order of time, of those that were noted (``settle``).
    """

    def __init__(self, context: VerifyContext) -> None:
        self._context = context
        self.all: list[Write] = []
        self._noted: list[tuple[int, int, bool]] = []
        self._reserves: list[Record] = []
        self._times: list[int] = []
        self._by_seq: dict[int, Write] = {}
        self._runs: list[list[int]] = []

    def prescan(self, record: Record, body: QOSCgroupsUpdated | QOSReserveComputed) -> None:
        if isinstance(body, QOSReserveComputed):
            self._reserves.append(record)
        else:
            self._noted.append((record.ts_ns, record.seq, body.failed))

    def settle(self, state: NodeState) -> None:
        """Explain all that were noted; of those that were seen long ago none is asked for more."""
        from_ns = (state.latest_ts_ns or 0) - _ASKED_NS
        self._noted = [each for each in self._noted if each[1] > state.seq or each[0] >= from_ns]
        self._reserves = [r for r in self._reserves if r.seq > state.seq or r.ts_ns >= from_ns]
        self.all = [Write(seq, ts_ns, failed) for ts_ns, seq, failed in sorted(self._noted)]
        self._runs = []
        self._times = [write.ts_ns for write in self.all]
        self._by_seq = {write.seq: write for write in self.all}
        self._give_reserves()
        timeline, of = self._context.timeline, dict[int, list[PodActiveInterval]]()
        for pod in timeline.pods.values():
            for interval in pod.intervals:
                of.setdefault(interval.process, []).append(interval)
        for process, group in groupby(self.all, key=lambda write: timeline.process(write.ts_ns)):
            writes = list(group)
            if process is not None:
                self._explain_ticks(process, writes)
                self._explain_by_pods(writes, of.get(process.number, []))

    def of(self, seq: int) -> Write:
        return self._by_seq[seq]

    def before(self, ts_ns: int) -> list[Write]:
        """The last write by a time, and those of the same instant before it in the log."""
        index = bisect_right(self._times, ts_ns)
        return self.all[max(index - 1, 0) : index]

    def within(self, start_ns: int, end_ns: int) -> list[Write]:
        """Writes after a time, up to another."""
        return self.all[bisect_right(self._times, start_ns) : bisect_right(self._times, end_ns)]

    def around(self, ts_ns: int) -> tuple[int | None, int | None]:
        """The ticks of the timer before and after a time, as far as one run of it has them."""
        for ticks in self._runs:
            if ticks[0] <= ts_ns <= ticks[-1]:
                index = bisect_right(ticks, ts_ns)
                return ticks[index - 1], ticks[min(index, len(ticks) - 1)]
        before = [ticks[-1] for ticks in self._runs if ticks[-1] < ts_ns]
        return max(before, default=None), None

    def _give_reserves(self) -> None:
        """Each write logged its reserves right before it."""
        seqs = [write.seq for write in sorted(self.all, key=lambda write: write.seq)]
        for record in sorted(self._reserves, key=lambda record: record.seq):
            index, body = bisect_right(seqs, record.seq), record.body
            assert isinstance(body, QOSReserveComputed)
            write = self._by_seq[seqs[index]] if index < len(seqs) else None
            if write is not None and 0 <= write.ts_ns - record.ts_ns <= _LOGGED_NS:
                reserve = (record.seq, body.requested_bytes, body.reserve_percent)
                write.reserves = {**write.reserves, body.qos_class: reserve}

    # The timer ----------------------------------------------------------------------------

    def _explain_ticks(self, process: Process, writes: Sequence[Write]) -> None:
        """Find the writes whole minutes apart; a clock that is set begins another run of them."""
        first = process.from_start and writes[0].ts_ns <= process.started_ns + PERIOD_NS
        while writes:
            times = [write.ts_ns for write in writes]
            ticks = _ticks(times, 0)
            if not first or len(ticks) < 2:  # a process writes first by the timer
                ticks = max((_ticks(times, n) for n in range(min(len(times), _TRIED))), key=len)
            if len(ticks) < 2 and not first:
                return
            whys = {ticks[0]: "the minute timer fired, as it did at others minutes from it"}
            for last_ns, ts_ns in pairwise(ticks):
                earlier = f"{(ts_ns - last_ns) / NS_PER_S:.3f} s earlier"
                whys[ts_ns] = f"the timer fires once a minute, and last fired {earlier}"
            for write in writes:
                if write.ts_ns in whys:
                    write.due(whys[write.ts_ns])
            self._runs.append(ticks)
            writes, first = writes[bisect_right(times, ticks[-1]) :], False

    # Pods ---------------------------------------------------------------------------------

    def _explain_by_pods(
        self, writes: Sequence[Write], intervals: Sequence[PodActiveInterval]
    ) -> None:
        """Explain each other write by a pod that came or went."""
        coming = [(*span, interval.seq) for interval in intervals for span in self._spans(interval)]
        coming.sort(reverse=True)
        going_on: list[tuple[int, int, str, int]] = []
        for write in writes:
            while coming and coming[-1][0] <= write.ts_ns:
                going_on.append(coming.pop())
            going_on = [span for span in going_on if span[1] >= write.ts_ns]
            if going_on and not write.explained:
                _, _, why, seq = max(going_on)
                write.due(why, seq)

    def _spans(self, interval: PodActiveInterval) -> Iterator[tuple[int, int, str]]:
        """When the QoS level can have been written for a pod, and why."""
        runs, since_ns = self._context.timeline.pods[interval.key].runs, interval.since_ns
        ran = [run.started_ns for run in runs if run.started_ns is not None]
        refused = interval.admitted is False and not runs
        if not refused and (interval.start_time_unknown or min(ran, default=since_ns) >= since_ns):
            logged_ns = since_ns if interval.add_seq else max(since_ns, interval.seen_ns)
            until_ns = min((t for t in ran if t >= since_ns), default=logged_ns + _RETRIES_NS)
            until_ns = until_ns if interval.ended_ns is None else min(until_ns, interval.ended_ns)
            why = f"pod {interval.full_name} was new and had no cgroup yet when it was first synced"
            yield since_ns, until_ns, why
        # Since 1.22 a worker may remove what was refused and is deleted (UpdatePod).
        start_ns = (interval.deleted_ns or interval.removed_ns) if refused else interval.ending_ns
        if start_ns is not None:
            ends = [interval.removed_ns, interval.terminated_ns, interval.ended_ns]
            died = [run.died_ns for run in runs if run.died_ns is not None and not run.sandbox]
            if died and not any(run.died_ns is None for run in runs if not run.sandbox):
                start_ns = min(start_ns, max(died))  # the line of its end may be lost
            last_ns = max(ts_ns for ts_ns in (start_ns, *ends, *died) if ts_ns is not None)
            last_ns += _GRACE_NS if any(run.died_ns is None for run in runs) else _KILLED_NS
            process = self._context.timeline.processes.all[interval.process]
            if process.counts_while_terminating and ends[:2] == [None, None]:
                last_ns = max(last_ns, self._times[-1])  # what fails is tried again
            yield start_ns, last_ns, f"pod {interval.full_name} was being taken down"


def _ticks(times: Sequence[int], index: int) -> list[int]:
    """The longest run of writes whole minutes apart that begins with one of them."""
    ticks, found = [], [times[index]]
    while found:
        ticks.append(found[0])
        for minutes in range(1, (times[-1] - ticks[-1]) // PERIOD_NS + 2):
            due = ticks[-1] + minutes * PERIOD_NS
            first = bisect_left(times, due - _OFF_NS)
            found = list(times[first : bisect_right(times, due + minutes * _OFF_NS)])
            found.sort(key=lambda ts_ns: abs(ts_ns - due))
            if found:
                break
    return ticks
