"""From a plan to facts: logs and documents merged by time, through the assemblers."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from itertools import chain, zip_longest

from kubeledger import __version__
from kubeledger.ingest.carried import ReadState, basis_of
from kubeledger.ingest.dispatch import Dispatcher, finding_fact
from kubeledger.ingest.klog.account import Account, LogOutput, Ordered, shape_of
from kubeledger.ingest.klog.lines import LineStats
from kubeledger.ingest.klog.log_survey import LogSurvey
from kubeledger.ingest.klog.reader import KlogReader
from kubeledger.ingest.klog.reorder import LogOrder, all_after, overlap_of, up_to
from kubeledger.ingest.klog.stamps import Clock
from kubeledger.ingest.planning.plan import Plan
from kubeledger.ingest.planning.weave import groups_of, woven
from kubeledger.ingest.sources.documents import Document, LineCounts, read_document
from kubeledger.ingest.sources.items import ApiEvent, Fact, Finding, Item, NodeObject, PodList
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.ingest.standing import Coverage
from kubeledger.model.bodies.ledger import (
    FindingReported,
    ImportCompleted,
    ImportStarted,
    SourceAccount,
)
from kubeledger.model.wire.catalogue import YEARS, body_flaw, is_storable

Progress = Callable[[int, int], None]
"""Called now and then with the bytes read so far and the bytes there are."""

_OWN_TIMES = frozenset({"events", "gaps"})
"""Formats of documents of which each part has its own time."""

Place = Callable[[int, int], tuple[int, int]]
"""Line and offset of what is read -> those in the source."""

Keyed = tuple[int, "Ordered | Item"]

SEAMS = 2
"""So many ends of logs are told, the last ones: what one of them waited for may come next."""


class Pipeline:
    """Reads one bundle once; the facts come out in the order of its time.

    Attributes:
        accounts: file -> account of its lines.
        confirmed: file -> records that it is evidence of, besides the file that counts them.
        findings: what was odd, those known from the start included.
        progress: is called now and then with how far it is.
        at_seam: is called where all of some logs was read, before what waits for more is told: at
            the end, and where one of the last logs begins after the end of those before.
    """

    def __init__(
        self,
        plan: Plan,
        coverage: Coverage,
        state: ReadState | None = None,
    ) -> None:
        """Nothing is read yet.

        Args:
            plan: of what is read.
            coverage: what of it was imported before.
            state: of another pipeline, which read the first logs of the plan; it is used up.
        """
        self.plan = plan
        self.accounts: dict[str, Account] = {} if state is None else state.accounts
        self.confirmed: Counter[str] = Counter() if state is None else state.confirmed
        self.findings: list[Finding] = [] if state is None else state.findings
        self.at_seam: Callable[[], None] | None = None
        self._state = state
        self._clock = self._clock_then = None if state is None else state.clock
        self._logs_read = 0 if state is None else state.logs
        self._key_ns = plan.timing.first_ts_ns if state is None else state.key_ns
        self._groups: Iterator[tuple[int, Iterator[LogOutput]]] = self._read_groups()
        if state is not None:
            plan.context = state.dispatcher.context
        self._coverage = coverage
        self.progress: Progress | None = None
        self._read = 0
        self._sizes = {file.source.name: file.digests.size for file in plan.bundle.files}
        self._total = sum(self._sizes.values())
        waiting = None if state is None else state.dispatcher
        self._dispatcher = Dispatcher(plan, self.accounts, waiting)

    def is_later(self) -> bool:
        """Whether all that is read comes after what was read before; reads some of it."""
        before, outputs = next(self._groups)
        outputs, is_later = all_after(outputs, self._key_ns)
        self._groups = chain(((before, outputs),), self._groups)
        return is_later

    def state(self) -> ReadState:
        """What another pipeline can go on from; it shares all of it with this one."""
        assert self._clock_then is not None
        return ReadState(
            dispatcher=self._dispatcher.state,
            clock=self._clock_then,
            accounts=self.accounts,
            findings=self.findings,
            confirmed=self.confirmed,
            key_ns=self._key_ns,
            logs=self._logs_read,
            plan_findings=self.plan.findings,
            version=self.plan.version,
            basis=basis_of(self.plan),
            starts_ns=self.plan.context.starts_ns,
        )

    def facts(self) -> Iterator[Fact]:
        """All facts, from ``ImportStarted`` to ``ImportCompleted``.

        Raises:
            BadInputError: a file changed while it was read.
        """
        return self._storable(self._all_facts())

    def _storable(self, facts: Iterable[Fact]) -> Iterator[Fact]:
        """The facts, but for those that no ledger can hold: findings say so in their place."""
        for fact in facts:
            flaw = body_flaw(fact.body)
            if flaw is None and not is_storable(fact.ts_ns):
                flaw = f"its time is not in the years {YEARS}"
            if flaw is not None:
                yield from self._misread(fact)
            sound = fact if flaw is None else self._rejected(fact, flaw)
            self._dispatcher.counters.see(sound)
            if isinstance(sound.body, FindingReported):
                found = sound.body
                self.findings.append(Finding(found.finding, found.file, found.message))
            yield sound

    def _misread(self, fact: Fact) -> Iterator[Fact]:
        """The line of a fact that no ledger can hold was not understood after all."""
        place = fact.evidence[0] if fact.evidence else None
        if place is not None and place.line is not None and place.text is not None:
            shape = shape_of("", place.text, False, "unreadable record")
            ts_ns = self.plan.timing.first_ts_ns
            account = self.accounts.get(place.file)  # none of a file that is read as a whole
            misread = None if account is None else account.misread(shape, place.line, place, ts_ns)
            yield from () if misread is None else (misread,)

    def _rejected(self, fact: Fact, flaw: str) -> Fact:
        """In place of a fact that no ledger can hold, the finding that says so."""
        place = fact.evidence[0] if fact.evidence else None
        where = f"line {place.line}: " if place is not None and place.line is not None else ""
        finding = Finding("malformed", place.file if place else None, f"{where}{flaw}"[:500])
        ts_ns = fact.ts_ns if is_storable(fact.ts_ns) else self.plan.timing.first_ts_ns
        return finding_fact(finding, ts_ns, place)

    def _all_facts(self) -> Iterator[Fact]:
        yield from self._up_to_the_end()
        self._logs_read, self._clock_then = len(self.plan.timing.logs), self._clock
        if self.at_seam is not None and self._clock is not None:
            self.at_seam()
        last_ns = max(self._dispatcher.last_ns, self.plan.timing.last_ts_ns)
        yield from self._dispatcher.finish(last_ns)
        for finding, reading in self._dispatcher.counters.disagreements():
            yield finding_fact(finding, last_ns, reading.evidence)
        yield self._end(last_ns)

    def _up_to_the_end(self) -> Iterator[Fact]:
        yield self._begin()
        for finding in self.plan.findings if self._state is None else ():
            yield finding_fact(finding, self.plan.timing.first_ts_ns)
        for key, item in heapq.merge(*self._streams(), key=lambda pair: pair[0]):
            self._key_ns = key
            yield from self._dispatcher.take(key, item)

    def count(self, fact: Fact) -> None:
        """Note that a fact became a record of this import."""
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

    # --- the streams ------------------------------------------------------------------

    def _streams(self) -> list[Iterable[Keyed]]:
        """Streams in their order for equal times: snapshots, events, then the log."""
        documents = self.plan.timing.documents
        events = [document for document in documents if document.format in _OWN_TIMES]
        others = [document for document in documents if document.format not in _OWN_TIMES]
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
                yield document.ts_ns, finding_fact(finding, document.ts_ns)
            for item in items:
                if self._is_ours(item):
                    yield item.ts_ns, item
            self._advance(document.source)

    def _is_ours(self, item: Item) -> bool:
        """Take out pods, events and node objects of other nodes, which a cluster's lists hold."""
        node = self.plan.context.node
        if isinstance(item, ApiEvent):
            return item.event.may_be_of(node)
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
        order = LogOrder(self._key_ns)
        begun = self._logs_read
        for before, outputs in self._groups:
            if self.at_seam is not None and begun < before > len(self.plan.timing.logs) - SEAMS:
                self._clock_then = deepcopy(self._clock)
                outputs, is_later = all_after(outputs, order.latest_ns)
                if is_later:
                    yield from order.drain()
                    self._logs_read = self.plan.context.logs_read = before
                    self.at_seam()
            for output in outputs:
                yield from order.take(output)
        yield from order.drain()

    def _read_logs(self) -> Iterator[LogOutput]:
        return chain.from_iterable(outputs for _, outputs in self._groups)

    def _read_groups(self) -> Iterator[tuple[int, Iterator[LogOutput]]]:
        """What is read of each log, or of those that are woven, and how many logs come before.

        Those are read before the next is asked for.
        """
        timing, before = self.plan.timing, self._logs_read
        self._clock = clock = self._clock or Clock(timing.first_year, timing.offset_ns)
        groups = groups_of(timing.logs[before:])
        for group, following in zip_longest(groups, groups[1:]):
            if len(group) > 1:
                yield before, self._read_woven(group, clock, is_last=following is None)
            else:
                next_log = following[0] if following else None
                yield before, self._read_log(group[0], next_log, clock)
            before += len(group)

    def _read_log(
        self, survey: LogSurvey, following: LogSurvey | None, clock: Clock
    ) -> Iterator[LogOutput]:
        reader = self._reader(survey, clock)
        overlap = overlap_of(survey, following) if following is not None else None
        end = survey.size if overlap is None else overlap.offset
        for chunk in self._counted(up_to(survey.source.chunks(), end)):
            yield from reader.feed(chunk)
        if following is None and self._stays_open(reader):
            return
        left_out, also_in = 0, ""
        if overlap is not None:
            assert following is not None
            left_out = overlap.lines
            also_in = f"its last {left_out} lines begin {following.source.name}, too"
        yield from self._end_of(survey, reader, clock, left_out, also_in)
        self._read += survey.size - end

    def _read_woven(
        self, group: list[LogSurvey], clock: Clock, *, is_last: bool
    ) -> Iterator[LogOutput]:
        """Excerpts of one log, run after run; an excerpt ends where its last line is read."""
        excerpts, runs = woven(group)
        readers = [self._reader(each.log, clock, each.place) for each in excerpts]
        to_read = [each.size_bytes for each in excerpts]
        empty = [(index, b"") for index, size in enumerate(to_read) if not size]
        for which, data in chain(empty, runs):
            yield from readers[which].feed(data)
            yield from readers[which].settle()
            self._read += len(data)
            to_read[which] -= len(data)
            is_open = is_last and which == len(group) - 1
            if to_read[which] or (is_open and self._stays_open(readers[which])):
                continue
            excerpt = excerpts[which]
            names = ", ".join(log.source.name for log in group if log is not excerpt.log)
            also_in = f"{excerpt.lines} of its lines stand in {names}, too"
            yield from self._end_of(excerpt.log, readers[which], clock, excerpt.lines, also_in)
            self._read += excerpt.log.size - excerpt.size_bytes

    def _end_of(
        self, survey: LogSurvey, reader: KlogReader, clock: Clock, left_out: int, also_in: str
    ) -> Iterator[LogOutput]:
        """What is left of a log whose lines were read; ``also_in``: where those left out are."""
        yield from reader.end()
        reader.account.pass_over(survey.source.left_out, survey.source.twice)
        findings = list(_odd_content(survey, reader.cutter.stats))
        if left_out:
            reader.account.leave_out(left_out)
            findings.append(Finding("overlap", survey.source.name, f"{also_in}: read once"))
        at_ns = clock.last_ns or self.plan.timing.first_ts_ns
        for finding in findings:
            yield finding_fact(finding, at_ns)

    def _reader(self, survey: LogSurvey, clock: Clock, place: Place | None = None) -> KlogReader:
        source = survey.source
        return KlogReader(
            self._account(source.name),
            self._dispatcher.router,
            clock,
            place or (None if source.keeps_places else source.place),
            survey.ends,
            goes_back=survey.goes_back,
            begin_ns=self.plan.timing.spans.get(source.name, (0, 0))[0],
        )

    def _stays_open(self, reader: KlogReader) -> bool:
        """Whether the last log continues after what is there of it; ``reader`` has read that."""
        return False

    def _counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._read += len(chunk)
            if self.progress is not None:
                self.progress(self._read, self._total)
            yield chunk

    def _advance(self, source: SourceFile) -> None:
        self._read += self._sizes.get(source.name, 0)
        if self.progress is not None:
            self.progress(min(self._read, self._total), self._total)

    def _account(self, file: str) -> Account:
        account = Account(file, self._coverage.known_bytes(file))
        self.accounts[file] = account
        return account


def _odd_content(survey: LogSurvey, stats: LineStats) -> Iterator[Finding]:
    name, source = survey.source.name, survey.source
    if source.left_out:
        yield Finding("other_programs", name, f"{source.left_out} rows of other programs left out")
    if source.twice:
        message = f"{source.twice} rows stand in it once more: read once"
        yield Finding("delivered_twice", name, message)
    if stats.nul_bytes:
        yield Finding("not_text", name, f"{stats.nul_bytes} NUL bytes in the log")
    if stats.undecodable:
        yield Finding("not_utf8", name, f"{stats.undecodable} lines are not UTF-8")
    if stats.overlong:
        yield Finding("line_cut", name, f"{stats.overlong} lines longer than 1 MiB were cut")
    if not stats.ends_with_newline and stats.size:
        yield Finding("half_written", name, "the last line has no end")
