"""The one life of processes, settings, pods and containers, for all rules.

Made in the first reading, from records in any order; asked in the second, with times::

    timeline.process(ts)          the kubelet process: version, settings, whether its log is whole
    timeline.active(start, end)   the pods that counted: those that surely did, and that may have
    timeline.pod(ts, uid, ...)    the history of a pod: its lives and its containers' runs
    timeline.specs.at(ts, ...)    the pod's object as lists show it

What is asked of pods holds under loss: ``must <= truth <= may``, where lines may be missing
(:mod:`~kubeledger.verify.evidence.coverage`), too. A pod of which no record at all is left
cannot be in ``may``: then :attr:`Active.loss` says what is missing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.record import Body, Record
from kubeledger.verify.evidence.coverage import Coverage, Loss
from kubeledger.verify.evidence.gather import Gathered, gather
from kubeledger.verify.evidence.podlife import PodHistory, PodLife
from kubeledger.verify.evidence.pods import PodRegister
from kubeledger.verify.evidence.processes import Process, Processes
from kubeledger.verify.evidence.signs import SIGNS, Sign, sign_of
from kubeledger.verify.evidence.turns import Turns

__all__ = ["Active", "Timeline"]

_BACK_NS: Final = 150_000_000_000
"""Rules ask about times so long past without making the timeline search anew."""


class Active(msgspec.Struct, frozen=True):
    """The pods that counted as active in a span.

    Attributes:
        must: key -> life of the pods that counted all the time.
        may: key -> life of those that counted at some instant; ``must`` among them.
        loss: why there may have been pods besides; None when there were none.
    """

    must: dict[str, PodLife]
    may: dict[str, PodLife]
    loss: Loss | None

    @property
    def doubtful(self) -> dict[str, PodLife]:
        """Those that may have counted or not."""
        return {key: life for key, life in self.may.items() if key not in self.must}


class Timeline:
    """Everything that lives on one node.

    Attributes:
        coverage: what the records may lack.
        processes: all kubelet processes.
        specs: the pods' objects as lists show them.
        turns: of the sync loop.
        pods: key -> pod.
    """

    KINDS: tuple[type[Body], ...] = (*Processes.KINDS, *SIGNS)
    """Kinds of the records that this needs."""

    def __init__(self, coverage: Coverage, specs: PodRegister) -> None:
        """``coverage`` and ``specs`` are filled beside this, and settled before it."""
        self.coverage = coverage
        self.specs = specs
        self.processes = Processes()
        self.turns = Turns()
        self.pods: dict[str, PodHistory] = {}
        self._signs: dict[str, dict[str | None, list[Sign]]] = {}
        self._lists: dict[str, set[int]] = {"kubelet": set(), "api": set()}
        self._gathered = Gathered()
        self._by_name: dict[str, list[str]] = {}
        self._lives: list[list[PodLife]] = []
        self._starts: list[list[int]] = []
        self._window: dict[int, tuple[int, int, list[PodLife]]] = {}

    # First reading -----------------------------------------------------------------------

    def note(self, record: Record) -> None:
        """Take in a record; one of another kind changes nothing."""
        kind = type(record.body)
        if kind in Processes.KINDS:
            self.processes.note(record)
            return
        if kind in Turns.KINDS:
            self.turns.note(record)
        elif isinstance(record.body, PodListed) and record.body.listed_by != "manifest":
            self._lists[record.body.listed_by].add(record.ts_ns)
        told = sign_of(record)
        if told is not None:
            (uid, namespace, name), sign = told
            of_name = self._signs.setdefault(f"{namespace}/{name}", {})
            of_name.setdefault(uid, []).append(sign)

    def settle(self) -> None:
        """The first reading is over; ``coverage`` and ``specs`` are settled."""
        self.processes.settle(self.coverage)
        self.turns.settle()
        lists = {source: sorted(times) for source, times in self._lists.items()}
        self._gathered = gather(
            self._signs, lists, self.processes, self.turns, self.coverage, self.specs
        )
        self._signs.clear()
        self.pods = self._gathered.pods
        for key, pod in self.pods.items():
            self._by_name.setdefault(f"{pod.namespace}/{pod.name}", []).append(key)
        self._lives = [[] for _ in range(max(len(self.processes.all), 1))]
        for pod in self.pods.values():
            for life in pod.lives:
                self._lives[life.process].append(life)
        for lives in self._lives:
            lives.sort(key=lambda life: (life.since_ns, life.seq))
        self._starts = [[life.since_ns for life in lives] for lives in self._lives]

    # Second reading ----------------------------------------------------------------------

    def process(self, ts_ns: int) -> Process | None:
        """The kubelet process that runs at a time; None when no record shows any."""
        return self.processes.at(ts_ns)

    def pod(
        self, ts_ns: int, uid: str | None, namespace: str | None = None, name: str | None = None
    ) -> PodHistory | None:
        """A pod; without ``uid`` the newest of its name that had come by then, else the first."""
        if uid is not None and uid in self.pods:
            return self.pods[uid]
        keys = self._by_name.get(f"{namespace}/{name}")
        if not keys:
            return None
        found = [self.pods[key] for key in keys]
        if uid is not None:
            return next((pod for pod in found if pod.uid is None), None)
        come = [pod for pod in found if pod.lives and pod.lives[0].since_ns <= ts_ns]
        return max(come, key=_first_ns) if come else min(found, key=_first_ns)

    def named(self, namespace: str, name: str) -> list[PodHistory]:
        """All pods that ever had a name."""
        return [self.pods[key] for key in self._by_name.get(f"{namespace}/{name}", ())]

    def life(
        self, ts_ns: int, uid: str | None, namespace: str | None = None, name: str | None = None
    ) -> PodLife | None:
        """The pod's stay at a time, or the last before it, in the process that runs then."""
        pod, process = self.pod(ts_ns, uid, namespace, name), self.process(ts_ns)
        number = 0 if process is None else process.number
        lives = [] if pod is None else [each for each in pod.lives if each.process == number]
        come = [life for life in lives if life.since_ns <= ts_ns]
        return come[-1] if come else None

    def active(self, start_ns: int, end_ns: int) -> Active:
        """The pods that the kubelet counted as active in a span of one process.

        ``must <= truth <= may``: ``must`` counted all the time, ``may`` at some instant. These
        are the pods that admission, cgroup sums, eviction rankings and the device manager
        reckon with (``GetActivePods``). Where another process starts within the span, none counts
        all the time.
        """
        must: dict[str, PodLife] = {}
        may: dict[str, PodLife] = {}
        whole_from_ns = self.coverage.unbroken_from(end_ns)
        first, last = self._number(start_ns), self._number(end_ns)
        for life in (
            each for n in range(first, last + 1) for each in self._around(n, start_ns, end_ns)
        ):
            may[life.key] = life
            # The lines of its end may be lost where nothing shows it alive later.
            if (
                first == last
                and life.must_count(start_ns, end_ns)
                and (
                    life.seen_ns >= end_ns or whole_from_ns <= max(life.seen_ns, life.sure_ns or 0)
                )
            ):
                must[life.key] = life
        return Active(must, may, self.unknown_pods(start_ns) or self.unknown_pods(end_ns))

    def admission(self, life: PodLife, by_ns: int | None = None) -> Active:
        """The pods that counted when a pod was admitted, without itself.

        The loop takes the pods of one config line one after the other, the older first; those of
        the same age, and static pods, in an order that only the topology manager's records show.

        Args:
            life: of the pod, which a config line brought.
            by_ns: it was judged by then, where a record shows that better than the decision.
        """
        start_ns, end_ns = self.admission_span(life, by_ns)
        found = self.active(start_ns, end_ns)
        must, may = {}, {}
        for key, other in found.may.items():
            earlier = _comes_before(other, life, self.pods)
            is_over = other.ended_ns is not None and other.ended_ns <= start_ns
            if key == life.key or earlier is False or _was_refused(other, end_ns) or is_over:
                continue
            may[key] = other
            # One that was handed over just before counts by its order.
            goes_on = other.ending_ns is None or other.ending_ns > end_ns
            counts = key in found.must or (earlier and other.admitted and goes_on)
            undecided = other.add_seq is not None and other.decided_ns is None
            if counts and earlier is not None and not undecided:
                must[key] = other
        return Active(must, may, found.loss)

    def admission_span(self, life: PodLife, by_ns: int | None = None) -> tuple[int, int]:
        """When a pod that a config line brought was admitted or rejected: earliest and latest.

        What was killed for a pod before it in the same turn was killed before. Arguments as in
        :meth:`admission`.
        """
        came_ns = life.since_ns if life.added_ns is None else life.added_ns
        over_ns = self.turns.over_by(came_ns)
        ends = [ts_ns for ts_ns in (over_ns, life.decided_ns, by_ns) if ts_ns is not None]
        end_ns = max(came_ns, min(ends, default=came_ns))
        killed = self._gathered.preempted_for
        waits = [
            killed[other.key]
            for other in self._turn(life)
            if other.key in killed and _comes_before(other, life, self.pods) is not False
        ]
        return max([came_ns, *(ts_ns for ts_ns in waits if ts_ns <= end_ns)]), end_ns

    def turn(self, ts_ns: int) -> list[PodLife]:
        """The pods that the last config line by a time brought, if it brought any.

        The sync loop puts them through admission before it reads the next one.
        """
        lives = [e for e in self._lives[self._number(ts_ns)] if (e.added_ns or ts_ns + 1) <= ts_ns]
        places = [(life.added_ns or 0, life.add_line or 0) for life in lives]
        return [e for e, place in zip(lives, places, strict=True) if place == max(places)]

    def _turn(self, life: PodLife) -> Iterator[PodLife]:
        """Other pods that the same line brought."""
        lives, starts = self._lives[life.process], self._starts[life.process]
        for index in range(bisect_left(starts, life.since_ns), len(lives)):
            if starts[index] != life.since_ns:
                return
            if lives[index] is not life:
                yield lives[index]

    def unknown_pods(self, ts_ns: int) -> Loss | None:
        """Why pods may have counted at a time that no record shows; None when none can.

        Every pod is known from a time on, and to a time back, at which all are told: the start of
        the process, or a list of the kubelet's. What came or went in between has its lines.
        """
        process = self.process(ts_ns)
        if process is None:
            return self.coverage.missing(ts_ns, ts_ns)
        loss = Loss(
            from_ts_ns=None,
            to_ts_ns=None,
            seq=process.seq,
            phrase="the pods that were there before the log",
        )
        for known_ns in self._gathered.all_told(process, ts_ns):
            found = self.coverage.silent(min(known_ns, ts_ns), max(known_ns, ts_ns))
            if found is None:
                return None
            loss = found
        return loss

    def _number(self, ts_ns: int) -> int:
        process = self.process(ts_ns)
        return 0 if process is None else process.number

    def _around(self, number: int, start_ns: int, end_ns: int) -> Iterator[PodLife]:
        """Lives of a process that may count in a span.

        Times mostly go on from one question to the next, so those that ended long before are
        not looked at again.
        """
        past_ns, index, window = self._window.get(number, (0, 0, []))
        if start_ns < past_ns:
            past_ns, index, window = 0, 0, []
        until = bisect_right(self._starts[number], end_ns)
        if until > index:
            window = window + self._lives[number][index:until]
            index = until
        if start_ns - past_ns > 2 * _BACK_NS:
            past_ns = start_ns - _BACK_NS
            window = [life for life in window if life.ended_ns is None or life.ended_ns >= past_ns]
        self._window[number] = (past_ns, index, window)
        for life in window:
            if life.may_count(start_ns, end_ns):
                yield life


def _was_refused(life: PodLife, by_ns: int) -> bool:
    return life.admitted is False and life.decided_ns is not None and life.decided_ns <= by_ns


def _comes_before(other: PodLife, life: PodLife, pods: Mapping[str, PodHistory]) -> bool | None:
    """Whether ``other`` is admitted before; None when that is random.

    One that no line of its process brought was there before.
    """
    if other is life:
        return False
    if other.add_seq is None or life.add_seq is None:
        return True
    if (other.added_ns, other.add_line) != (life.added_ns, life.add_line):
        return (other.added_ns or 0, other.add_seq) < (life.added_ns or 0, life.add_seq)
    if other.aligned_seq is not None and life.aligned_seq is not None:
        return other.aligned_seq < life.aligned_seq
    made, own = pods[other.key].created_ns, pods[life.key].created_ns
    if other.is_static or life.is_static or made is None or own is None or made == own:
        return None
    return made < own


def _first_ns(pod: PodHistory) -> int:
    return pod.lives[0].since_ns if pod.lives else 0
