"""When things can have happened: the one answer for all rules.

The time of a line is when it was written, not when the thing happened:

==========================  =====================================================================
start, end of a container   the PLEG's line says that a relist saw it: it was no later than the
                            line, and no earlier than lines were late around that time
a status in a list          the runtime's own time, to the second; it narrows the line's, and shows
                            how late lines were
an event "Started", a kill  follow the start: they show how late lines were, too
trouble of the runtime      no relist saw anything in that time: what is told next may be so old
the end of a pod            follows the end, as its worker sees it, whatever the sync loop tells
a file of a snapshot        was read some time in its round, which begins at the snapshot's time
a step of the clock         times before it and after it are apart by more, or less, than they say
==========================  =====================================================================

Filled in a first reading (records come in any order), asked in the second.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain, groupby, pairwise
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple

from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerStarted,
    KubernetesEvent,
    PodTerminated,
)
from kubeledger.model.bodies.node import ClockStepped, KubeletStarted, NodeTroubled
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.evidence.pods import ListedInstances

RELIST_NS: Final = 3 * NS_PER_S
"""So much later a start or an end is told on a node that is not slow: at the next relist, and when
the sync loop comes to it."""
_BATCH_NS: Final = NS_PER_S * 9 // 10
_LATE_BATCH_NS: Final = 20 * NS_PER_S
"""What one relist saw is told within this time, the latter on an overloaded node."""
FOUND_NS: Final = 60 * NS_PER_S
"""So long after its start a process tells of what there was before."""
ROUND_NS: Final = 5 * NS_PER_S
"""A snapshot is named after the second in which its reading began; it is over by this time."""
UNSEEN_STEP_NS: Final = NS_PER_S
"""A step of the clock that is no longer shows nowhere, and may have turned lines round."""
_AROUND_NS: Final = 60 * NS_PER_S
"""Where one line was late, others so near may be as late."""
_STEP_NS: Final = 300 * NS_PER_S
"""The start of the next process seems to be at another time, too."""
_SURE: Final = 3
"""So many relists in a row that are late, or early, alike: it is not one that stalled."""
_SPAN_NS: Final = 120 * NS_PER_S
"""No node stalls alike for so long."""
_TRIED: Final = 512
_BLIND: Final = ("pleg_unhealthy", "runtime_down", "sync_skipped")
"""Where relists fail, or the sync loop does not look at what they saw."""
_NEVER: Final = 1 << 62
_SECOND_NS: Final = NS_PER_S - 1
"""Statuses have whole seconds."""


class When(NamedTuple):
    """The bounds of an instant, in nanoseconds."""

    from_ns: int
    to_ns: int


class _Told(NamedTuple):
    """A line about the start of a container, or (``died``) its end."""

    ts_ns: int
    container_id: str
    name: tuple[str | None, str | None]
    died: bool


class Times:
    """When containers of a node ran, and how late its lines are."""

    KINDS: tuple[type[Body], ...] = (
        ClockStepped,
        ContainerDied,
        ContainerKilled,
        ContainerStarted,
        KubeletStarted,
        KubernetesEvent,
        NodeTroubled,
        PodTerminated,
    )

    def __init__(self, instances: ListedInstances) -> None:
        """``instances`` is filled beside this."""
        self._instances = instances
        self._told: dict[str, list[_Told]] = {}
        self._kills: dict[str, list[int]] = {}
        self._events: dict[tuple[str | None, str | None], list[int]] = {}
        self._over: dict[str | None, list[int]] = {}
        self._processes: list[int] = []
        self._troubles: list[tuple[int, int]] = []
        self._since_ns = 0
        self._steps: list[tuple[int, int, int, int]] = []
        self._told_early_ns = 0
        self._apart: list[tuple[int, int]] = []
        self._early: dict[tuple[str, int], int] = {}
        self._late: list[tuple[int, int]] = []

    # First reading -----------------------------------------------------------------------

    def note(self, record: Record) -> None:
        body, ts_ns = record.body, record.ts_ns
        if isinstance(body, ClockStepped):
            self._steps.append((ts_ns, body.from_ts_ns - body.to_ts_ns, record.seq, self._since_ns))
            self._since_ns = ts_ns
        elif isinstance(body, ContainerDied | ContainerStarted):
            self._since_ns = min(self._since_ns or ts_ns, ts_ns)
        match body:
            case KubeletStarted():
                self._processes.append(ts_ns)
            case KubernetesEvent() if body.reason == "Started":
                self._events.setdefault((body.pod_uid, body.container), []).append(ts_ns)
            case NodeTroubled() if body.trouble in _BLIND:
                self._troubles.append((body.first_ts_ns, body.passed_ts_ns or body.last_ts_ns))
            case PodTerminated():
                self._over.setdefault(body.pod_uid, []).append(ts_ns)
            case ContainerKilled() if body.container_id:
                self._kills.setdefault(body.container_id, []).append(ts_ns)
            case ContainerStarted() | ContainerDied() if body.container_id and not body.sandbox:
                name = body.pod_uid, body.container
                died = isinstance(body, ContainerDied)
                told = _Told(ts_ns, body.container_id, name, died)
                self._told.setdefault(body.container_id, []).append(told)

    def forget(self, before_ns: int, gone: Collection[str]) -> None:
        """Nobody asks for earlier times: what ended by then, and no list shows, is not needed.

        Nor for some pods; by their UIDs.
        """
        self._troubles = [each for each in self._troubles if each[1] >= before_ns]
        self._over = {uid: times for uid, times in self._over.items() if uid not in gone}
        self._events = {of: times for of, times in self._events.items() if of[0] not in gone}
        for container_id, told in [*self._told.items()]:
            is_over = any(each.died and each.ts_ns < before_ns for each in told)
            is_listed = self._instances.instance(container_id) is not None
            if any(each.name[0] in gone for each in told) or (is_over and not is_listed):
                del self._told[container_id]
                self._kills.pop(container_id, None)
        for name, times in self._events.items():
            last_ns = max((ts_ns for ts_ns in times if ts_ns < before_ns), default=before_ns)
            self._events[name] = [ts_ns for ts_ns in times if ts_ns >= last_ns]

    def settle(self) -> None:
        self._told_early_ns, self._apart, self._early = 0, [], {}
        self._processes.sort()
        self._steps.sort(key=itemgetter(2))
        for times in self._events.values():
            times.sort()
        spans: list[tuple[int, int, int]] = []
        known: list[tuple[int, int]] = []
        by_lists: list[_Told] = []
        seen: set[tuple[str, bool, int]] = set()
        relists: dict[int, list[tuple[int, int]]] = {}  # process -> (told, newest that was seen)
        all_told = chain.from_iterable(self._told.values())
        for told in sorted(all_told, key=attrgetter("ts_ns", "container_id", "died")):
            index = bisect_right(self._processes, told.ts_ns)
            began_ns = self._processes[index - 1] if index else 0  # of the first one
            key = told.container_id, told.died, began_ns
            found = None if key in seen else self._late_by(told, began_ns)
            seen.add(key)
            if found is None:
                continue
            late_ns, by_list = found
            happened_ns = told.ts_ns - late_ns - _SECOND_NS
            before = relists.setdefault(began_ns, [])
            overtaken = bisect_right(before, (told.ts_ns - _AROUND_NS, _NEVER)) - 1
            if overtaken >= 0 and before[overtaken][1] > happened_ns + _AROUND_NS:
                continue  # relists had told, long before, of what was long after: it is not late
            seen_ns = max(happened_ns, before[-1][1] if before else 0)
            before.append((told.ts_ns, seen_ns))
            if by_list:
                known.append((told.ts_ns, late_ns))
                by_lists.append(told)
            if late_ns > RELIST_NS:
                most_ns = late_ns + _SECOND_NS  # statuses have whole seconds
                spans.append((told.ts_ns - late_ns - _AROUND_NS, told.ts_ns + _AROUND_NS, most_ns))
        since_ns = until_ns = -_AROUND_NS
        for from_ns, to_ns in sorted(self._troubles):
            since_ns = since_ns if from_ns <= until_ns + _AROUND_NS else from_ns
            until_ns = max(until_ns, to_ns)
            if until_ns - since_ns > RELIST_NS:
                spans.append((since_ns, until_ns + _AROUND_NS, until_ns - since_ns))
        self._find_apart(known)
        self._find_early(known, by_lists)
        self._late = _most(sorted(spans))

    def _find_early(self, known: Sequence[tuple[int, int]], told: Sequence[_Told]) -> None:
        """Lines that alone tell what by the lists was still to come: no clock explains these."""
        for n in range(1, len(known) - 1):
            instance = self._instances.instance(told[n].container_id)
            early = [_is_apart(each) < 0 for each in known[n - 1 : n + 2]]
            if instance is None or early != [False, True, False]:
                continue
            listed_ns = instance.ended_ns if told[n].died else instance.began_ns
            if listed_ns is not None and (not told[n].died or instance.lived[0] >= listed_ns):
                self._early[told[n].container_id, told[n].ts_ns] = listed_ns

    def _find_apart(self, known: Sequence[tuple[int, int]]) -> None:
        """Where by lists lines in a row are early, or late, alike, the clock may have been set."""
        agreed_ns, is_apart = 0, False
        for apart, group in groupby([*known, (_NEVER, 0)], key=_is_apart):
            times, lates = zip(*group, strict=True)
            if not apart:
                # A clock that was set stays so for the process; a node that is slow recovers.
                begun = bisect_right(self._processes, agreed_ns)
                if is_apart and (*self._processes[begun:], _NEVER)[0] <= times[0]:
                    self._apart.append((agreed_ns, times[0]))
                agreed_ns, is_apart = times[-1], False
            elif is_apart or _show_two_clocks(times, lates):
                is_apart = True
            else:  # on a node that is slow, lines of all lateness came before the step
                for n in range(max(1, len(times) - _TRIED), len(times) - 2 * _SURE):
                    if _show_two_clocks(times[n:], lates[n:], span_ns=_SPAN_NS):
                        agreed_ns, is_apart = times[n - 1], True
                        break

    def _late_by(self, told: _Told, began_ns: int) -> tuple[int, bool] | None:
        """How late a line is at least, and whether a list says so; None where nothing does.

        A process shows at its start what happened before it; later that shows two clocks.
        """
        instance = self._instances.instance(told.container_id)
        happened_ns = None
        if instance is not None:
            happened_ns = instance.ended_ns if told.died else instance.began_ns
        listed_ns = happened_ns
        if listed_ns is not None and listed_ns > told.ts_ns:
            self._told_early_ns = max(self._told_early_ns, told.ts_ns)
        if happened_ns is None and not told.died:
            events = self._events.get(told.name, [])
            index = bisect_right(events, told.ts_ns)
            happened_ns = events[index - 1] if index else None
        begun = [each.ts_ns for each in self._told[told.container_id] if not each.died]
        if happened_ns is None and told.died and begun:
            over = self._over.get(told.name[0], ())
            happened_ns = min((ns for ns in over if min(begun) < ns < told.ts_ns), default=None)
        kills = [] if told.died else self._kills.get(told.container_id, [])
        known = [ts_ns for ts_ns in kills if began_ns <= ts_ns < told.ts_ns]
        if known and (happened_ns is None or happened_ns < began_ns):
            happened_ns = min(known)
        is_old = happened_ns is not None and happened_ns < began_ns
        if happened_ns is None or (is_old and told.ts_ns - began_ns < _STEP_NS):
            return None
        if self.stepped(happened_ns, told.ts_ns):
            return None
        return told.ts_ns - happened_ns - _SECOND_NS, happened_ns == listed_ns

    # Second reading ----------------------------------------------------------------------

    def late(self, ts_ns: int) -> int:
        """How late lines around a time may be, beyond what they are on a node that is not slow."""
        index = bisect_right(self._late, (ts_ns, 1 << 62)) - 1
        return self._late[index][1] if index >= 0 else 0

    def stepped(self, start_ns: int, end_ns: int) -> int:
        """By how much the clock was set back between two times, in the order of the log.

        What is later than a step, and earlier than all that was told before it, was after it.
        """
        return sum(
            back
            for at, back, _, since_ns in self._steps
            if start_ns <= at + back and at <= end_ns and not at <= start_ns < since_ns
        )

    def two_clocks(self) -> Iterator[tuple[int, int, int | None]]:
        """Where lines and files may go by two clocks: the record of the step, from, to.

        That ends with the process, unless later lines tell what by lists was still to come. Lines
        and lists that are apart show two clocks, too, where no line steps back. What goes back
        over the start of a process, or its last step again and again, is no clock but an order.
        """
        if sum(now[0] <= before[0] for before, now in pairwise(self._steps)) >= _SURE:
            yield 0, 0, None
        for ts_ns, back, seq, _ in self._steps:
            index = bisect_right(self._processes, ts_ns)
            end_ns = self._processes[index] + _STEP_NS if index < len(self._processes) else None
            apart = end_ns is not None and self._told_early_ns > end_ns
            if end_ns is not None and self._processes[index] < ts_ns + back:
                seq, end_ns = 0, max(end_ns, ts_ns + back + _AROUND_NS)
            yield seq, ts_ns - back - _AROUND_NS, None if apart else end_ns
        yield from ((0, from_ns, to_ns) for from_ns, to_ns in self._apart)

    def started(self, container_id: str | None, told_ns: int | None) -> When | None:
        """When a container began to run, whose start was told then; None where nothing says."""
        listed = self.listed_start(container_id, told_ns)
        return listed if listed is not None or told_ns is None else self.told(told_ns)

    def listed_start(self, container_id: str | None, told_ns: int | None = None) -> When | None:
        """The same as a list says it; None where none does, or by another clock than the line."""
        instance = self._instances.instance(container_id)
        return None if instance is None else self._listed(instance.began_ns, told_ns)

    def listed_end(self, container_id: str | None, told_ns: int | None = None) -> When | None:
        instance = self._instances.instance(container_id)
        return None if instance is None else self._listed(instance.ended_ns, told_ns)

    def _listed(self, listed_ns: int | None, told_ns: int | None) -> When | None:
        if listed_ns is None:
            return None
        if told_ns is not None and (listed_ns > told_ns or self.stepped(listed_ns, told_ns)):
            return None
        return When(listed_ns, listed_ns + _SECOND_NS)

    def early(self, container_id: str | None, told_ns: int) -> tuple[int, int] | None:
        """When by a list that was which a line tells too early, and the list; None: none does."""
        instance = self._instances.instance(container_id)
        listed_ns = self._early.get((container_id or "", told_ns))
        return None if instance is None or listed_ns is None else (listed_ns, instance.seq)

    def kills(self, container_id: str | None, from_ns: int, to_ns: int) -> bool:
        """Whether the kubelet told after a time, and by another, that it kills a container."""
        return any(from_ns < ts_ns <= to_ns for ts_ns in self._kills.get(container_id or "", ()))

    def apart(self, first_ns: int, ts_ns: int) -> bool:
        """Whether of two times at which the sync loop told something another relist saw the latter.

        Relists are a second apart, and what one saw of a pod is told at once, but where lines are
        late. Stamps of whole seconds may be apart by a second less.
        """
        is_late = self.late(first_ns) or self.late(ts_ns)
        is_coarse = not (first_ns % NS_PER_S or ts_ns % NS_PER_S)
        return ts_ns - first_ns >= (_LATE_BATCH_NS if is_late else _BATCH_NS + is_coarse * NS_PER_S)

    def told(self, ts_ns: int) -> When:
        """When that was which a relist saw, and the sync loop told at a time."""
        return When(ts_ns - max(RELIST_NS, self.late(ts_ns)), ts_ns)


def _is_apart(told: tuple[int, int]) -> int:
    """1 for a line that is later than a relist makes it, -1 for one that is early."""
    return (told[1] > RELIST_NS) - (told[1] < -2 * NS_PER_S)


def _show_two_clocks(times: Sequence[int], lates: Sequence[int], span_ns: int = 0) -> bool:
    """Whether most of some lines, over that time at least, are late, or early, by the same."""
    alike_ns = min(lates) + RELIST_NS + NS_PER_S
    near = [ts for ts, late in zip(times, lates, strict=True) if late <= alike_ns]
    relists = 1 + sum(later - ts > NS_PER_S for ts, later in pairwise(near))
    return (
        relists >= (2 * _SURE if span_ns else _SURE)
        and 2 * len(near) > len(times)
        and near[-1] - near[0] >= span_ns
    )


def _most(spans: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """The greatest value of overlapping spans (from, to, value): (from, value), until the next."""
    found: list[tuple[int, int]] = []
    open_spans: list[tuple[int, int]] = []
    edges = sorted({edge for start, end, _ in spans for edge in (start, end)})
    index = 0
    for edge in edges:
        while index < len(spans) and spans[index][0] <= edge:
            heappush(open_spans, (-spans[index][2], spans[index][1]))
            index += 1
        while open_spans and open_spans[0][1] <= edge:
            heappop(open_spans)
        found.append((edge, -open_spans[0][0] if open_spans else 0))
    return found
