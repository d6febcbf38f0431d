"""From a plan to facts: logs and documents merged by time, through the assemblers."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, zip_longest

from kubeledger import __version__
from kubeledger.ingest.assemblers import assemblers_of
from kubeledger.ingest.correlate.assembler import ItemHandler
from kubeledger.ingest.counters import CounterCheck
from kubeledger.ingest.coverage import Coverage
from kubeledger.ingest.klog.account import Account, shape_of
from kubeledger.ingest.klog.cut_lines import CutLineError
from kubeledger.ingest.klog.lines import LineStats
from kubeledger.ingest.klog.log_survey import LogSurvey
from kubeledger.ingest.klog.outputs import (
    ClockStep,
    LogEntry,
    LogOutput,
    NewProcess,
    Ordered,
)
from kubeledger.ingest.klog.reader import KlogReader
from kubeledger.ingest.klog.reorder import in_order
from kubeledger.ingest.klog.rotation import overlap_of, up_to
from kubeledger.ingest.klog.stamps import Clock
from kubeledger.ingest.messages.catalogue import router
from kubeledger.ingest.planning.bundle import Finding
from kubeledger.ingest.planning.plan import Plan
from kubeledger.ingest.planning.time_order import OrderedLines
from kubeledger.ingest.sequencer import Sequencer
from kubeledger.ingest.sources.api_events import ApiReason
from kubeledger.ingest.sources.documents import Document, LineCounts, read_document
from kubeledger.ingest.sources.facts import Fact, Facts
from kubeledger.ingest.sources.items import (
    ApiEvent,
    Item,
    KubeletCounters,
    LogLine,
    NodeObject,
    PodList,
)
from kubeledger.ingest.sources.newest_first import ReversedLines
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.model.bodies.ledger import (
    FindingReported,
    ImportCompleted,
    ImportStarted,
    SourceAccount,
)
from kubeledger.model.bodies.node import ClockStepped, KubeletStarted
from kubeledger.model.record import Evidence
from kubeledger.model.wire.instants import YEARS, is_storable
from kubeledger.model.wire.soundness import body_flaw

__all__ = ["Pipeline", "Progress"]

MALFORMED = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What reading damaged values raises. It is recorded as a finding, where it stands: one
damaged line in a million must not keep the others out of the ledger."""

Progress = Callable[[int, int], None]
"""Called now and then with the bytes read so far and the bytes there are."""

Keyed = tuple[int, "Ordered | Item"]


class Pipeline:
    """Reads one bundle once; the facts come out in the order of its time.

    Attributes:
        accounts: file -> account of its lines.
        confirmed: file -> records that it is evidence of, besides the file that counts them.
        findings: what was odd, those known from the start included.
    """

    def __init__(self, plan: Plan, coverage: Coverage, progress: Progress | None = None) -> None:
        self.plan = plan
        self.accounts: dict[str, Account] = {}
        self.confirmed: Counter[str] = Counter()
        self.findings: list[Finding] = []
        self._coverage = coverage
        self._progress = progress
        self._read = 0
        self._total = sum(file.digests.size for file in plan.bundle.files)
        self._last_ns = plan.timing.first_ts_ns
        self._starts, self._assemblers = assemblers_of(plan.context, plan.version_at)
        self._router = router(self._assemblers)
        queues = {id(each.queue): each.waiting_since for each in self._assemblers}
        self._sequencer = Sequencer(list(queues.values()))
        self._counters = CounterCheck(plan.context.logged_until_ns)
        self._handlers: dict[type, list[ItemHandler]] = {}
        for assembler in self._assemblers:
            for kind, handler in assembler.items().items():
                self._handlers.setdefault(kind, []).append(handler)

    def facts(self) -> Iterator[Fact]:
        """All facts, from ``ImportStarted`` to ``ImportCompleted``.

        Raises:
            BadInputError: a file changed while it was read.
        """
        for fact in self._all_facts():
            flaw = body_flaw(fact.body)
            if flaw is None and not is_storable(fact.ts_ns):
                flaw = f"its time is not in the years {YEARS}"
            if flaw is not None:
                yield from self._misread(fact)
            sound = fact if flaw is None else self._rejected(fact, flaw)
            self._counters.see(sound)
            if isinstance(sound.body, FindingReported):
                found = sound.body
                self.findings.append(Finding(found.finding, found.file, found.message))
            yield sound

    def _misread(self, fact: Fact) -> Iterator[Fact]:
        """The line of a fact that no ledger can hold was not understood after all."""
        place = fact.evidence[0] if fact.evidence else None
        if place is not None and place.line is not None and place.text is not None:
            shape = shape_of("", place.text, False)
            ts_ns = self.plan.timing.first_ts_ns
            yield self.accounts[place.file].misread(shape, place.line, place, ts_ns)

    def _rejected(self, fact: Fact, flaw: str) -> Fact:
        """In place of a fact that no ledger can hold, the finding that says so."""
        place = fact.evidence[0] if fact.evidence else None
        where = f"line {place.line}: " if place is not None and place.line is not None else ""
        finding = Finding("malformed", place.file if place else None, f"{where}{flaw}"[:500])
        ts_ns = fact.ts_ns if is_storable(fact.ts_ns) else self.plan.timing.first_ts_ns
        return self._finding(finding, ts_ns, place)

    def _all_facts(self) -> Iterator[Fact]:
        yield self._begin()
        for finding in self.plan.findings:
            yield self._finding(finding, self.plan.timing.first_ts_ns)
        for key, item in heapq.merge(*self._streams(), key=lambda pair: pair[0]):
            self._last_ns = key
            if isinstance(item, ClockStep):
                yield from self._sequencer.drain()
            facts = self._entry(item) if isinstance(item, LogEntry) else self._dispatch(item)
            if facts:
                self._sequencer.put(facts)
            yield from self._sequencer.release(key)
        last_ns = max(self._last_ns, self.plan.timing.last_ts_ns)
        for assembler in self._assemblers:
            self._sequencer.put(assembler.finish(last_ns))
        yield from self._sequencer.drain()
        for finding, reading in self._counters.disagreements():
            yield self._finding(finding, last_ns, reading.evidence)
        yield self._end(last_ns)

    def count(self, fact: Fact) -> None:
        """Take down that a fact became a record of this import."""
        if fact.evidence:
            account = self.accounts.get(fact.evidence[0].file)
            if account is not None:
                account.records[fact.body.kind] += 1
            first, *others = (piece.file for piece in fact.evidence)
            self.confirmed.update({*others} - {first})

    def totals(self) -> tuple[SourceAccount, ...]:
        """The accounts of the sources that are new, sorted by file."""
        new = {source.file for source in self.plan.sources}
        return tuple(self.accounts[file].total() for file in sorted(self.accounts) if file in new)

    def _begin(self) -> Fact:
        timing = self.plan.timing
        body = ImportStarted(
            digest=self.plan.digest,
            kubeledger_version=__version__,
            sources=self.plan.sources,
            year=timing.year,
            year_source=timing.year_source,
        )
        return Fact(timing.first_ts_ns, body, ())

    def _end(self, ts_ns: int) -> Fact:
        return Fact(ts_ns, ImportCompleted(digest=self.plan.digest, accounts=self.totals()), ())

    def _finding(self, finding: Finding, ts_ns: int, evidence: Evidence | None = None) -> Fact:
        if evidence is None and finding.file is not None:
            evidence = Evidence(file=finding.file)
        body = FindingReported(finding=finding.finding, file=finding.file, message=finding.message)
        return Fact(ts_ns, body, (evidence,) if evidence else ())

    # --- the streams ------------------------------------------------------------------

    def _streams(self) -> list[Iterable[Keyed]]:
        """Streams in their order for equal times: snapshots, events, then the log."""
        documents = self.plan.timing.documents
        events = [document for document in documents if document.format == "events"]
        others = [document for document in documents if document.format != "events"]
        return [
            self._documents(others),
            *(self._documents([document]) for document in events),
            self._kernel_reports(),
            self._logs(),
        ]

    def _documents(self, documents: list[Document]) -> Iterator[Keyed]:
        for document in documents:
            items, counts = read_document(document, self.plan.bundle.contents)
            yield from self._account_document(document, counts)
            for flaw in counts.flaws:
                finding = Finding("malformed", document.source.name, flaw[:500])
                yield document.ts_ns, self._finding(finding, document.ts_ns)
            for item in items:
                if self._is_ours(item):
                    yield item.ts_ns, item
            self._advance(document.source)

    def _is_ours(self, item: Item) -> bool:
        """Take out pods, events and node objects of other nodes, which a cluster's lists hold."""
        node = self.plan.context.node
        if isinstance(item, ApiEvent):
            return ApiReason.read(item.event).may_be_of(node)
        if isinstance(item, NodeObject):
            return (item.node.get("metadata") or {}).get("name") in (node, None)
        if isinstance(item, PodList):
            names = [(pod.get("spec") or {}).get("nodeName") for pod in item.pods]
            if item.listed_by == "api" and any(names):
                item.pods = [
                    pod for pod, name in zip(item.pods, names, strict=True) if name == node
                ]
        return True

    def _account_document(self, document: Document, counts: LineCounts) -> Iterator[Keyed]:
        account = self._account(document.source.name)
        account.lines, account.understood = counts.lines, counts.understood
        account.noise = counts.noise
        for place in counts.unknown:
            shape = shape_of("", place.text or "", False)
            fact = account.reject(shape, place.line or 0, place, document.ts_ns)
            if fact is not None:
                yield document.ts_ns, fact
        for fact in account.drain(document.ts_ns):
            yield document.ts_ns, fact

    def _kernel_reports(self) -> Iterator[Keyed]:
        """The reports of all kernel logs, at the times that were found out for them."""
        reports = self.plan.context.kernel_reports.values()
        for report in sorted(chain.from_iterable(reports), key=lambda report: report.ts_ns):
            yield report.ts_ns, report

    def _logs(self) -> Iterator[Keyed]:
        return in_order(self._read_logs(), self.plan.timing.first_ts_ns)

    def _read_logs(self) -> Iterator[LogOutput]:
        timing = self.plan.timing
        clock = Clock(timing.year or 1970, timing.offset_ns)
        for survey, following in zip_longest(timing.logs, timing.logs[1:]):
            account = self._account(survey.source.name)
            source = survey.source
            place = source.place if isinstance(source, OrderedLines | ReversedLines) else None
            reader = KlogReader(
                account, self._router, clock, place, survey.ends, goes_back=survey.goes_back
            )
            overlap = overlap_of(survey, following) if following is not None else None
            end = survey.digests.size if overlap is None else overlap.offset
            yield from reader.read(self._counted(up_to(survey.source.chunks(), end)))
            findings = list(_odd_bytes(survey, reader.cutter.stats))
            if overlap is not None:
                account.leave_out(overlap.lines)
                self._read += survey.digests.size - end
                message = f"its last {overlap.lines} lines begin {following.source.name}, too"
                findings.append(Finding("overlap", survey.source.name, f"{message}: read once"))
            at_ns = clock.last_ns or timing.first_ts_ns
            for finding in findings:
                yield self._finding(finding, at_ns)

    def _counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._read += len(chunk)
            if self._progress is not None:
                self._progress(self._read, self._total)
            yield chunk

    def _advance(self, source: SourceFile) -> None:
        self._read += source.path.stat().st_size
        if self._progress is not None:
            self._progress(min(self._read, self._total), self._total)

    def _account(self, file: str) -> Account:
        account = Account(file, self._coverage.known_bytes(file))
        self.accounts[file] = account
        return account

    # --- dispatch ---------------------------------------------------------------------

    def _dispatch(self, item: Item | NewProcess | ClockStep | Fact) -> Facts:
        match item:
            case NewProcess():
                return self._new_process(item.line)
            case ClockStep():
                return self._step(item)
            case Fact():
                return (item,)
            case KubeletCounters():
                self._counters.read(item)
                return ()
            case _:
                return self._item(item)

    def _new_process(self, line: LogLine) -> Facts:
        facts = [*self._starts.new_process(line)]
        started = facts[-1].body if facts else None
        if isinstance(started, KubeletStarted) and not started.from_start:
            for each in self._assemblers:
                facts += each.goes_on(line)
        return facts

    def _entry(self, entry: LogEntry) -> Facts:
        line = entry.line
        facts: list[Fact] = []
        for handler in entry.handlers:
            try:
                found = handler(line)
                if found:
                    facts += found
            except CutLineError:
                facts += self._not_understood(line)
                break
            except MALFORMED as error:
                facts += self._not_understood(line)
                message = f"line {line.line} cannot be read: {_in_words(error)}"
                finding = Finding("malformed", line.source, message[:500])
                facts.append(self._finding(finding, line.ts_ns, line.evidence))
                break
        return facts

    def _not_understood(self, line: LogLine) -> Iterator[Fact]:
        """A damaged line of a known message: the import goes on."""
        account = self.accounts[line.source]
        account.understood -= 1
        shape = shape_of(line.file, line.message, line.values is not None)
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
                yield self._finding(Finding("malformed", file, message[:500]), item.ts_ns)

    def _step(self, step: ClockStep) -> Iterator[Fact]:
        line = step.line
        body = ClockStepped(from_ts_ns=step.from_ts_ns, to_ts_ns=step.to_ts_ns)
        yield Fact(line.ts_ns, body, (line.evidence,))
        back_s = (step.from_ts_ns - step.to_ts_ns) / 1e9
        finding = Finding(
            "clock_stepped_back",
            line.source,
            f"line {line.line}: the clock went back {back_s:.3f} s",
        )
        yield self._finding(finding, line.ts_ns, line.evidence)


def _in_words(error: Exception) -> str:
    """What is wrong with values that a handler could not read."""
    match error:
        case KeyError():
            return f"{error} is missing"
        case AttributeError() | TypeError() | IndexError():
            return "a value is of another type than it should be"
        case _:
            return str(error)


def _odd_bytes(survey: LogSurvey, stats: LineStats) -> Iterator[Finding]:
    name = survey.source.name
    if stats.nul_bytes:
        yield Finding("not_text", name, f"{stats.nul_bytes} NUL bytes in the log")
    if stats.undecodable:
        yield Finding("not_utf8", name, f"{stats.undecodable} lines are not UTF-8")
    if stats.overlong:
        yield Finding("line_cut", name, f"{stats.overlong} lines longer than 1 MiB were cut")
    if not stats.ends_with_newline and stats.size:
        yield Finding("half_written", name, "the last line has no end")
