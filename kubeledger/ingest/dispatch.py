"""Items through the assemblers: facts come out in one order of time.

The items of a bundle come in the order of their time, be it that a log is read from its end to its
beginning once, or that they come while it is written (``live``).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kubeledger.ingest.assemblers import Assemblers, StartAssembler
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.error_lines import ErrorsAssembler
from kubeledger.ingest.correlate.node import NodeAssembler
from kubeledger.ingest.correlate.stages import StagesAssembler
from kubeledger.ingest.counters import CounterCheck
from kubeledger.ingest.klog.account import (
    Account,
    ClockStep,
    LogEntry,
    NewProcess,
    Ordered,
    shape_of,
)
from kubeledger.ingest.klog.cut_lines import CutLineError
from kubeledger.ingest.messages.catalogue import router
from kubeledger.ingest.planning.plan import Plan
from kubeledger.ingest.sources.items import Fact, Facts, Finding, Item, KubeletCounters, LogLine
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.bodies.node import ClockStepped, KubeletStarted
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

# Facts of all assemblers in one order of time.
#
# Assemblers hold facts back until their evidence is complete, each on its own. A fact that
# waited would come out after newer facts of others, and the state at an instant between
# them would lack it. So nothing leaves before what is held anywhere could still precede it.

Held = tuple[tuple[int, bool], int, Fact]
"""A fact's place in the order, and how many had come with it."""


class Sequencer:
    """A heap of facts between the assemblers and the ledger.

    Facts leave by their time, those of one time in the order they came, late ones last. A
    cause always leaves before its effects, whatever their times say.
    """

    def __init__(
        self, waiting_since: list[Callable[[], int | None]], held: Sequence[Held] = ()
    ) -> None:
        """Begin with nothing, or with facts that waited in another one.

        Args:
            waiting_since: asks each assembler for the time of the oldest fact it holds; more may
                come.
            held: what another one held.
        """
        self._waiting_since = waiting_since
        self._heap: list[Held] = sorted(held)
        self._orders = {id(fact): order for order, _, fact in held}
        self._arrived = max((arrived for _, arrived, _ in held), default=0)

    @property
    def held(self) -> list[Held]:
        """What has not left."""
        return [*self._heap]

    def put(self, facts: Facts) -> None:
        """Take in facts; a cause must have been put before its effects."""
        for fact in facts:
            order = (fact.ts_ns, fact.late)
            if fact.cause is not None:
                order = max(order, self._orders.get(id(fact.cause), order))
            self._orders[id(fact)] = order
            self._arrived += 1
            heapq.heappush(self._heap, (order, self._arrived, fact))

    def release(self, now_ns: int, patience_ns: int | None = None) -> Facts:
        """Facts that nothing to come can precede, at ``now_ns`` of the bundle's time.

        A late fact waits for what else happened in its instant, also where an assembler still
        holds that.

        Args:
            now_ns: the time up to which all has been read.
            patience_ns: what an assembler has held for longer will come late, and nothing waits
                for it; None: all wait for it.
        """
        if not self._heap or self._heap[0][0] > (now_ns, False):
            return ()
        return self._settled(now_ns, 0 if patience_ns is None else now_ns - patience_ns)

    def _settled(self, now_ns: int, held_ns: int) -> Iterator[Fact]:
        upto = (self._settled_upto(now_ns, held_ns), False)
        while self._heap and self._heap[0][0] <= upto:
            yield self._pop()

    def _settled_upto(self, now_ns: int, held_ns: int) -> int:
        """Time before which nothing is held any more; or one at which nothing can leave yet.

        What is held from before ``held_ns`` does not count.
        """
        first = self._heap[0][0]
        for place, ask in enumerate(self._waiting_since):
            since = ask()
            if since is not None and held_ns <= since < now_ns:
                now_ns = since
                if (since, False) < first:
                    # Who holds up all others mostly does so for many lines: it is asked first.
                    self._waiting_since.insert(0, self._waiting_since.pop(place))
                    return since
        return now_ns

    def drain(self) -> Iterator[Fact]:
        """Everything, in order: at the end, or when the clock was set back."""
        while self._heap:
            yield self._pop()

    def _pop(self) -> Fact:
        fact = heapq.heappop(self._heap)[2]
        # The id is only good while the heap keeps the fact alive.
        del self._orders[id(fact)]
        return fact


MALFORMED = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What reading damaged values raises. It is recorded as a finding, where it stands: one
damaged line in a million must not keep the others out of the ledger."""

_STEPS_MAX = 3
"""A log whose lines stand in no order would tell of a clock that was set back at each."""
_PATIENCE_NS = 3 * NS_PER_S
"""An eviction waits half a minute for the kill; what else happened on a node that goes on is not
to wait for it."""


class DispatcherState(NamedTuple):
    """All that a dispatcher knows after an item.

    Attributes:
        assemblers: with what they hold.
        held: facts that wait in the sequencer.
        steps: how often the clock was set back in each log.
        last_ns, counters: as the dispatcher's.
    """

    assemblers: Assemblers
    held: list[Held]
    steps: Counter[str]
    last_ns: int
    counters: CounterCheck

    @property
    def context(self) -> BundleContext:
        """What all assemblers share."""
        return self.assemblers.registers.context


class Dispatcher:
    """The assemblers of one bundle, and the sequencer after them.

    Attributes:
        router: which lines of a log anybody asks for.
        counters: the kubelet's own counts of its decisions.
        last_ns: time of the last item.
    """

    def __init__(
        self, plan: Plan, accounts: Mapping[str, Account], state: DispatcherState | None = None
    ) -> None:
        """No item has come.

        Args:
            accounts: file -> account of its lines; filled by the reader of the files.
            state: of another one, after the items that came before; it is used up.
        """
        self._accounts = accounts
        self._steps: Counter[str] = Counter() if state is None else state.steps
        self.last_ns = plan.timing.first_ts_ns if state is None else state.last_ns
        until_ns = plan.context.logged_until_ns
        self.counters = CounterCheck(until_ns) if state is None else state.counters
        self.counters.logged_until_ns = until_ns
        self._made = state.assemblers if state else Assemblers(plan.context, plan.version_at)
        registers = self._registers = self._made.registers
        self._starts = registers.assembler(StartAssembler)
        self._errors = registers.assembler(ErrorsAssembler)
        self.router, self._handlers = router(self._made.of("reads")), self._made.of("takes")
        self._sequencer = Sequencer(registers.waiting_since, () if state is None else state.held)

    @property
    def state(self) -> DispatcherState:
        """What another one can go on from; it shares all of it with this one."""
        held = self._sequencer.held
        return DispatcherState(self._made, held, self._steps, self.last_ns, self.counters)

    def take(self, key: int, item: Ordered | Item) -> Iterator[Fact]:
        """Take in the next item; gives out the facts that nothing to come can precede."""
        if isinstance(item, LogEntry):  # as nearly always
            self.last_ns = key
            facts: Facts = [*self._entry(item), *self._errors.due(key)]
            if not facts and not item.handlers:
                return  # it was only counted: what is due leaves with the next
        elif isinstance(item, Fact):  # of lines not understood: it leaves with what comes next
            self._sequencer.put((item,))
            return
        else:
            self.last_ns = key
            if isinstance(item, ClockStep):
                yield from self._sequencer.drain()
            facts = self._dispatch(item)
        if facts:
            self._sequencer.put(facts)
        yield from self._sequencer.release(key)

    def pass_time(self, now_ns: int) -> Iterator[Fact]:
        """Nothing came until ``now_ns``: what was waiting for more has waited long enough."""
        self.last_ns = max(self.last_ns, now_ns)
        for assembler in self._made.made():
            self._sequencer.put(assembler.pass_time(now_ns))
        yield from self._sequencer.release(now_ns, _PATIENCE_NS)

    def finish(self, last_ns: int) -> Iterator[Fact]:
        """All facts that still wait: the bundle ends at ``last_ns``."""
        # What is counted ends with the last thing read: the bundle may hold other nodes' lines.
        self._errors.end(self.last_ns)
        for assembler in self._made.made():
            self._sequencer.put(assembler.finish(last_ns))
        for account in self._accounts.values():  # lines that were refused after their log was read
            self._sequencer.put(account.drain(last_ns))
        yield from self._sequencer.drain()

    def _dispatch(self, item: Item | NewProcess | ClockStep) -> Facts:
        match item:
            case NewProcess():
                return self._new_process(item.line)
            case ClockStep():
                return self._step(item)
            case KubeletCounters():
                self.counters.read(item)
                return ()
            case _:
                return self._item(item)

    def _new_process(self, line: LogLine) -> Facts:
        facts = [*self._starts.new_process(line)]
        started = facts[-1].body if facts else None
        if isinstance(started, KubeletStarted) and not started.from_start:
            facts += self._registers.assembler(NodeAssembler).goes_on(line)
        return facts

    def _entry(self, entry: LogEntry) -> Facts:
        facts = self._read(entry)
        if entry.shape is not None:
            facts += self._errors.tell(entry.line, entry.shape)
        return facts

    def _read(self, entry: LogEntry) -> list[Fact]:
        line = entry.line
        facts: list[Fact] = []
        if entry.needs and (key := entry.lacks()) is not None:
            return [*self._not_understood(line, f" (without {key})")]
        for handler in entry.handlers:
            try:
                found = handler(line)
                if found:
                    facts += found
            except CutLineError:
                if (found := self._read_cut(line)) is None:
                    found = [*self._not_understood(line)]
                facts += found
                break
            except MALFORMED as error:
                facts += self._not_understood(line)
                message = f"line {line.line} cannot be read: {_in_words(error)}"
                finding = Finding("malformed", line.source, message[:500])
                facts.append(finding_fact(finding, line.ts_ns, line.evidence))
                break
        return facts

    def _read_cut(self, line: LogLine) -> Facts | None:
        return self._registers.assembler(StagesAssembler).read_cut(line)

    def _not_understood(self, line: LogLine, why: str = "") -> Iterator[Fact]:
        """A line of a known message that is damaged, or lacks a key: the import goes on."""
        account = self._accounts[line.source]
        account.understood -= 1
        shape = shape_of(line.file, line.message, line.values is not None) + why
        fact = account.reject(shape, line.line, line.evidence, line.ts_ns)
        if fact is not None:
            yield fact

    def _item(self, item: Item) -> Iterator[Fact]:
        assert not isinstance(item, LogLine), "log lines come as entries"
        for handler in self._handlers.get(type(item), ()):
            try:
                facts = handler(item)
                if facts:
                    yield from facts
            except MALFORMED as error:
                message = f"cannot be read whole: {_in_words(error)}"
                place = item.evidence
                file = place.file if isinstance(place, Evidence) else None
                yield finding_fact(Finding("malformed", file, message[:500]), item.ts_ns)

    def _step(self, step: ClockStep) -> Iterator[Fact]:
        line = step.line
        body = ClockStepped(from_ts_ns=step.from_ts_ns, to_ts_ns=step.to_ts_ns)
        yield Fact(line.ts_ns, body, (line.evidence,))
        self._steps[line.source] += 1
        if self._steps[line.source] > _STEPS_MAX:
            return
        is_last = self._steps[line.source] == _STEPS_MAX
        more = "; of further ones there are records only" if is_last else ""
        back_s = (step.from_ts_ns - step.to_ts_ns) / 1e9
        finding = Finding(
            "clock_stepped_back",
            line.source,
            f"line {line.line}: the clock went back {back_s:.3f} s{more}",
        )
        yield finding_fact(finding, line.ts_ns, line.evidence)


def finding_fact(finding: Finding, ts_ns: int, evidence: Evidence | None = None) -> Fact:
    """What the reader of the ledger must know about a source."""
    if evidence is None and finding.file is not None:
        evidence = Evidence(file=finding.file)
    body = FindingReported(finding=finding.finding, file=finding.file, message=finding.message)
    return Fact(ts_ns, body, (evidence,) if evidence else ())


def _in_words(error: Exception) -> str:
    """What is wrong with values that a handler could not read."""
    match error:
        case KeyError():
            return f"{error} is missing"
        case AttributeError() | TypeError() | IndexError():
            return "a value is of another type than it should be"
        case _:
            return str(error)
