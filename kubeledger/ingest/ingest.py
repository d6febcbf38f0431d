"""Facts into the ledger: in batches, each fact once, whatever was imported before.

Four cases keep an import from adding anything twice:

* all its sources were imported before: it is not even read;
* sources of earlier imports were kept: they are read again with the new ones (``pieces``), and
  the ledger comes to say what all of them together show. A record that still follows from them
  stays, one that does not is superseded, and what is missing is added;
* sources of an earlier import were not kept, and it reports the same time: what its records
  say is not said again (``standing``);
* the same import was killed: what it stored is found again, the rest is added.

Where nothing is read again, what the ledger says about sources (findings, accounts of lines)
goes by the sources themselves (``standing``, too).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from heapq import merge

import msgspec

from kubeledger.ingest.carried import (
    ReadState,
    Seam,
    Surveys,
    is_plain,
    load_seams,
    save_seams,
    seam_of,
    thawed_state,
)
from kubeledger.ingest.pieces import keep_sources, plan_with_kept
from kubeledger.ingest.pipeline import Pipeline, Progress
from kubeledger.ingest.planning.bundle import FoundFile, ImportOptions
from kubeledger.ingest.planning.plan import Plan
from kubeledger.ingest.sources.items import Fact, Finding
from kubeledger.ingest.sources.prefix import ANY_ENTRY
from kubeledger.ingest.standing import (
    OWN,
    WINDOW_NS,
    Coverage,
    Key,
    StandingRecords,
    StoredFacts,
    coverage_of,
    same_body,
    same_subject,
)
from kubeledger.ledger.base import DroppedImport
from kubeledger.ledger.frozen import NotFrozenError
from kubeledger.ledger.kept import REREAD_BYTES_MAX, KeptSources
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import Run, Span, is_superseded
from kubeledger.ledger.reading import keyed_replay, replay_runs
from kubeledger.ledger.storage import CARRIED
from kubeledger.ledger.tail import Draft
from kubeledger.ledger.writer import LedgerWriter
from kubeledger.model.bodies.ledger import (
    FindingReported,
    ImportCompleted,
    ImportStarted,
    RecordsSuperseded,
    SeqSpan,
    Source,
    SourceAccount,
)
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.errors import BadInputError, BadQuestionError, LedgerUnavailableError
from kubeledger.model.record import Record

_NOT_REREAD = (
    "what the ledger kept of an earlier import is damaged or gone, so that it was not read again "
    "together with this: `kubeledger audit` names it, and importing its files again keeps them anew"
)

_NOT_KEPT = (
    "what earlier imports of this node read was not read again together with this, for it was not "
    f"kept (it is more than {REREAD_BYTES_MAX >> 20:,} MiB, or this ledger is a copy): each piece "
    "tells only what its own files show"
)

BATCH = 1000
_POD = 10
"""Of how many other records in a batch the record of a whole pod takes the place."""
_TAIL_BYTES = 64 << 10


class NodeReport(msgspec.Struct):
    """What the import of one bundle did.

    Attributes:
        node: whose records; ``label`` how the user named the bundle.
        is_node_guessed: no source names the node: its name is the directory's.
        is_zone_assumed: no line shows the zone of the log's stamps: UTC; ``findings`` has no word
            of it.
        formats: file -> format of what was read; ``sizes`` in bytes, decompressed.
        accounts: where each line of each source went; empty when nothing was read.
        confirmed: file -> how many records it is evidence of besides the source that counts them.
        added: records appended; ``by_kind`` of them.
        already: all sources had been imported before, so nothing was read.
        resumed: an import that had been killed was completed.
        superseded: records of earlier imports that hold no more, by what all sources show.
        left_out: facts of a time that was dropped, which were not taken in again.
        skipped: file -> why it was not read.
        findings: what a user should see.
    """

    node: str
    label: str
    kubelet_version: str | None
    formats: dict[str, str]
    sizes: dict[str, int]
    is_node_guessed: bool = False
    is_zone_assumed: bool = False
    accounts: tuple[SourceAccount, ...] = ()
    confirmed: dict[str, int] = {}
    added: int = 0
    by_kind: dict[str, int] = {}
    already: bool = False
    resumed: bool = False
    superseded: int = 0
    left_out: int = 0
    skipped: dict[str, str] = {}
    findings: list[Finding] = []


class History(msgspec.Struct):
    """What a ledger holds of a node.

    Attributes:
        imported: sources of completed imports.
        runs: all runs, in the order of seq.
        completed: digests of completed imports.
        dropped: imports that begin among records that were dropped.
        dropped_ts_ns: the latest time of records that were dropped; None when none were.
    """

    imported: list[Source]
    runs: list[Run]
    completed: set[str]
    dropped: tuple[DroppedImport, ...] = ()
    dropped_ts_ns: int | None = None


def history_of(ledger: Ledger, writer: LedgerWriter, node: str) -> History:
    """Imports of a node that the ledger holds."""
    runs = list(writer.info(node).runs)
    history = History([], runs, {run.digest for run in runs if run.complete and run.digest})
    begun = [run.first_seq for run in runs if run.complete and run.digest]
    if begun:
        with ledger.reading(node, begun[0] - 1) as look:
            bodies = [record.body for record in look.picked(begun)]
        for body in bodies:
            if isinstance(body, ImportStarted):
                history.imported += body.sources
    if writer.info(node).dropped_seq:
        _add_dropped(ledger, node, history)
    return history


def _add_dropped(ledger: Ledger, node: str, history: History) -> None:
    with ledger.reading(node, 0, 0) as look:
        content = look.content()
    if content is None:
        return
    history.dropped, history.dropped_ts_ns = content.imports, content.ts_ns
    history.completed |= {known.digest for known in content.imports if known.complete}
    for known in content.imports:
        if known.digest in history.completed:
            history.imported += known.sources


def ingest(
    plan: Plan,
    ledger: Ledger,
    writer: LedgerWriter,
    options: ImportOptions,
    progress: Progress | None = None,
    *,
    keep: bool = True,
) -> NodeReport:
    """Import one bundle.

    Args:
        plan: of what is new.
        ledger: where it goes.
        options: of the user.
        progress: called now and then with how far it is.
        keep: keep the sources for later imports.

    Raises:
        BadInputError: a source cannot be read; what was appended before stays whole, and
            importing again completes it.
        LedgerUnavailableError: the ledger cannot be written.
    """
    node = plan.context.node
    history = history_of(ledger, writer, node)
    store = KeptSources(ledger.path, node)
    coverage = coverage_of(plan.bundle.files, history.imported)
    _refuse_nothing(plan)
    numbers = {run.digest: n for n, run in enumerate(history.runs) if run.complete and run.digest}
    if keep and numbers and not writer.info(node).keeps:
        store.begin(numbers)
    if plan.digest in history.completed or coverage.is_whole:
        _refuse_another_year(plan, ledger, history)
        if keep and plan.digest in numbers and not store.is_whole(plan.digest):
            keep_sources(plan, plan, options, store, numbers[plan.digest])
        report = _report(plan)
        report.already = True
        return report
    kept = store.imports(history.completed)
    gone_on = _gone_on(plan, options, ledger, store, history)
    if gone_on is not None:
        seam, complete, pipeline = gone_on
    else:
        seam, complete = None, plan_with_kept(plan, options, store, kept)
        complete.recorded = plan.recorded
        if complete.reread or complete.recorded:
            coverage = Coverage({})
        pipeline = Pipeline(complete, coverage)
    pipeline.progress = progress
    if keep:
        keep_sources(plan, complete, options, store, len(history.runs))
        writer.keeps_sources(node)
    ingestion = Ingestion(pipeline, ledger, writer, history, coverage, seam)
    if not keep:
        pipeline.at_seam = None
    for _ in writer.append_batches(node, ingestion.batches()):
        pass
    report = _report(complete)
    ingestion.finish(report)
    if keep and (seams := ingestion.seams()):
        with suppress(LedgerUnavailableError), ledger.reading(node) as look:
            save_seams(ledger.snapshots(node, CARRIED), look, seams)
    left = store.left(numbers, complete.reread) if keep else set()
    if (kept and seam is None and complete is plan) or False in left:
        report.findings.append(Finding("kept_sources_too_much", None, _NOT_KEPT))
    elif left:
        report.findings.append(Finding("kept_sources_damaged", None, _NOT_REREAD))
    return report


def _gone_on(
    plan: Plan,
    options: ImportOptions,
    ledger: Ledger,
    store: KeptSources,
    history: History,
) -> tuple[Seam, Plan, Pipeline] | None:
    """From where an import goes on, the plan of all, and what reads the rest.

    None where all has to be read again.

    Raises:
        BadInputError: as ``make_plan``.
    """
    is_whole = history.dropped_ts_ns is None and all(run.complete for run in history.runs)
    if not (history.runs and is_whole and is_plain(plan)):
        return None
    whole: Plan | None = None
    node = plan.context.node
    with ledger.reading(node) as look, suppress(NotFrozenError, LedgerUnavailableError):
        for seam in load_seams(ledger.snapshots(node, CARRIED), look):
            if whole is None:
                surveys = Surveys(seam)
                kept = store.imports(history.completed, surveys.digests)
                whole = plan_with_kept(plan, options, store, kept, surveys)
                if not {run.digest for run in history.runs} <= whole.reread:
                    return None
                newest, logs_max = seam, len(whole.timing.logs)
            if not 0 < len(seam.logs) <= logs_max:
                continue
            state, complete = thawed_state(seam, whole), whole
            if isinstance(state, ReadState) and seam is not newest:
                # What comes after the seam is read, and so proved.
                complete = plan_with_kept(plan, options, store, kept, Surveys(seam))
                if complete.reread != whole.reread:
                    return None
                state = thawed_state(seam, complete)
            if isinstance(state, ReadState):
                pipeline = Pipeline(complete, Coverage({}), state)
                return (seam, complete, pipeline) if pipeline.is_later() else None
            logs_max = state
    return None


def _refuse_nothing(plan: Plan) -> None:
    """A bundle of which no file could be read is no import."""
    if plan.sources:
        return
    reasons = [f"{file}: {why}" for file, why in sorted(plan.bundle.skipped.items())]
    reasons += [finding.message for finding in plan.findings]
    raise BadInputError(
        f"nothing in it can be imported: {'; '.join(reasons[:5]) or 'no file is readable'}",
        file=plan.bundle.label,
    )


def _refuse_another_year(plan: Plan, ledger: Ledger, history: History) -> None:
    """Records never change: a year that was guessed wrong cannot be put right in place."""
    year = plan.timing.year
    if year is None or plan.timing.year_source != "option":
        return
    digests = {source.digest for source in plan.sources}
    records = (ledger.record(plan.context.node, run.first_seq) for run in history.runs)
    begun: list[ImportStarted | DroppedImport] = [
        record.body
        for record in records
        if record is not None and isinstance(record.body, ImportStarted)
    ]
    for body in [*begun, *history.dropped]:
        if body.year in (None, year):
            continue
        if digests & {source.digest for source in body.sources}:
            raise BadQuestionError(
                f"these files are in the ledger already, with the year {body.year}",
                advice=f"records never change: import them with --year {year} into a new "
                "ledger (--ledger DIR)",
            )


def _report(plan: Plan) -> NodeReport:
    return NodeReport(
        node=plan.context.node,
        label=plan.bundle.label,
        kubelet_version=plan.version.version,
        is_node_guessed=plan.bundle.is_node_guessed,
        is_zone_assumed=plan.timing.is_zone_assumed,
        formats={source.file: source.format for source in plan.sources},
        sizes={source.file: source.size_bytes for source in plan.sources},
        skipped=plan.bundle.skipped,
        findings=list(plan.findings),
    )


def _counts(run: Run, plan: Plan) -> bool:
    """Whether a run's facts are an earlier import's, even if that one was killed.

    A killed import of the same sources continues; records of no import are not an import's.
    """
    return run.complete or run.digest not in (None, plan.digest)


def _overlaps(run: Run, plan: Plan) -> bool:
    timing = plan.timing
    return (
        run.first_ts_ns <= timing.last_ts_ns + WINDOW_NS
        and run.max_ts_ns >= timing.first_ts_ns - WINDOW_NS
    )


def _whole_bytes(file: FoundFile) -> int:
    """How much of a file is surely whole: of a log, all but its last entry, which may go on."""
    if file.survey is None:
        return file.digests.size
    end, tail = 0, b""
    for chunk in file.source.chunks():
        end += len(chunk)
        tail = (tail + chunk)[-_TAIL_BYTES:]
    entries = [entry.start() for entry in ANY_ENTRY.finditer(tail)]
    return end - len(tail) + tail.rfind(b"\n", 0, entries[-1]) + 1 if entries else end


class Ingestion:
    """One import, or a recording, on its way into the ledger."""

    def __init__(
        self,
        pipeline: Pipeline,
        ledger: Ledger,
        writer: LedgerWriter,
        history: History,
        coverage: Coverage,
        seam: Seam | None = None,
    ) -> None:
        """Look up what the ledger holds of the same sources; nothing is appended.

        Args:
            pipeline: whose facts these will be.
            ledger: where they go.
            writer: of the ledger; nobody else appends to this node meanwhile.
            history: what the ledger holds of the node.
            coverage: what of the sources was imported before.
            seam: from where the pipeline goes on.
        """
        plan = pipeline.plan
        self._node = plan.context.node
        self._coverage = coverage
        self._pipeline = pipeline
        self._by_kind: Counter[str] = Counter()
        self._first_seq = self._next_seq = writer.next_seq(self._node)
        reread = [
            run
            for run in history.runs
            if (run.complete and run.digest in plan.reread)
            or (run.digest is not None and run.digest == plan.recorded)
        ]
        self._interrupted = [
            run
            for run in history.runs
            if run.digest == plan.digest and not run.complete and run not in reread
        ]
        last = history.runs[-1] if history.runs else None
        # Its records end the ledger: what is missing goes right after them.
        self._in_place = bool(self._interrupted) and self._interrupted[-1] is last
        self._resumed = self._stored_of(ledger, self._interrupted, same_body)
        self._standing = (
            self._standing_of(ledger, plan, reread)
            if seam is None
            else self._after(ledger, seam, reread)
        )
        self._instant_ns = plan.timing.first_ts_ns if seam is None else seam.instant_ns
        self._instant_seq = 0 if seam is None else seam.instant_seq
        self._replay_ns = plan.timing.first_ts_ns
        self._begins_late = bool(plan.reread)
        self._begun: Fact | None = None
        earlier = [
            run
            for run in history.runs
            if _counts(run, plan) and _overlaps(run, plan) and run not in reread
        ]
        self._earlier = self._stored_of(ledger, earlier, same_subject)
        self._known_findings = set() if coverage.is_empty else self._findings(ledger)
        self._superseded = 0
        self._dropped_ts_ns = history.dropped_ts_ns
        self._latest_ts_ns: int | None = None
        self._left_out = 0
        self._seams: list[tuple[Seam, int]] = []
        self._told: list[tuple[int, int]] = []
        before = (self._earlier, self._resumed, self._dropped_ts_ns)
        if coverage.is_empty and before == (None, None, None) and is_plain(plan):
            pipeline.at_seam = self._at_seam

    def _stored_of(self, ledger: Ledger, runs: list[Run], key: Key) -> StoredFacts | None:
        if not runs:
            return None
        return StoredFacts(replay_runs(runs, *self._opened(ledger)), key)

    def _standing_of(self, ledger: Ledger, plan: Plan, runs: list[Run]) -> StandingRecords | None:
        if not runs:
            return None
        records = keyed_replay(runs, *self._opened(ledger))
        recorded = [(run.first_seq, run.last_seq) for run in runs if run.digest == plan.recorded]
        files = plan.bundle.files if recorded else []
        sizes = {file.source.name: _whole_bytes(file) for file in files}
        return StandingRecords(records, plan.timing.first_ts_ns, recorded, sizes)

    def _after(self, ledger: Ledger, seam: Seam, runs: list[Run]) -> StandingRecords:
        """Records of what waited at a seam, and of what was read after it."""
        opened = self._opened(ledger)
        with ledger.reading(self._node) as look:
            found = {record.seq: record for record in look.picked(seq for _, seq in seam.tail)}
        tail = [
            (replay_ns, found[seq])
            for replay_ns, seq in sorted(seam.tail)
            if not is_superseded(seq, opened[2])
        ]
        later = keyed_replay([run for run in runs if run.first_seq > seam.seq], *opened)
        records = merge(tail, later, key=lambda each: (each[0], each[1].seq))
        return StandingRecords(records, seam.instant_ns, instant_seq=seam.instant_seq)

    def _opened(self, ledger: Ledger) -> tuple[Callable[[int], Iterator[Record]], None, list[Span]]:
        """How runs are replayed: from where, to the end, without what is superseded already."""
        superseded = ledger.info(self._node).superseded
        return (
            lambda seq: ledger.records(self._node, seq, superseded=True),
            None,
            superseded,
        )

    def _findings(self, ledger: Ledger) -> set[FindingReported]:
        return {
            record.body
            for record in ledger.records(self._node)
            if isinstance(record.body, FindingReported)
        }

    def batches(self) -> Iterator[list[Draft]]:
        """Drafts of all facts that are new, a batch at a time."""
        return self.drafts(self._facts())

    def drafts(self, facts: Iterable[Fact]) -> Iterator[list[Draft]]:
        """Drafts of those of the next facts that are new, a batch at a time.

        All that it gives is to be appended in this order: drafts have their numbers already.
        """
        batch: list[Draft] = []
        pods = 0
        for fact in facts:
            if self._begins_late and isinstance(fact.body, ImportStarted):
                self._begun = fact
                continue
            batch += self._draft(fact)
            pods += isinstance(fact.body, PodListed)
            if len(batch) + _POD * pods >= BATCH:
                yield batch
                batch, pods = [], 0
        if batch:
            yield batch

    def reconcile(self, ts_ns: int) -> Iterator[Fact]:
        """Which records of the recording hold no more, by all that was read of it up to now.

        Of what comes later, nothing is looked for among them: a fact that still waits to be
        settled gets a record of its own in place of one that is superseded here. So the ledger
        never holds two accounts of one time.
        """
        if self._standing is not None:
            yield from self._supersede(self._standing.superseded(), ts_ns)
            self._standing = None

    def _facts(self) -> Iterator[Fact]:
        """The pipeline's facts, and before the last which records they superseded."""
        for fact in self._pipeline.facts():
            if self._standing is not None and isinstance(fact.body, ImportCompleted):
                yield from self._supersede(self._standing.superseded(), fact.ts_ns)
            yield fact

    def _supersede(self, spans: list[Span], ts_ns: int) -> Iterator[Fact]:
        self._superseded += sum(last - first + 1 for first, last in spans)
        superseded = tuple(SeqSpan(first_seq=first, last_seq=last) for first, last in spans)
        for at in range(0, len(superseded), BATCH):
            digest = self._pipeline.plan.digest
            body = RecordsSuperseded(digest=digest, spans=superseded[at : at + BATCH])
            yield Fact(ts_ns, body, ())

    def _at_seam(self) -> None:
        """What waits here is told now, and anew by an import that goes on from here."""
        instant = self._instant_ns, self._instant_seq
        seam = seam_of(self._pipeline.plan, self._pipeline.state(), *instant)
        if seam is not None:
            self._seams.append((seam, len(self._told)))

    def seams(self) -> list[Seam]:
        """What this import hands on to the next; to be asked after the last fact."""
        for seam, told in self._seams:
            seam.tail = self._told[told:]
        return [seam for seam, _ in self._seams]

    def _note(self, fact: Fact, seq: int) -> None:
        """Where the record of a fact stands in the order of replay."""
        self._instant_ns, self._instant_seq = max(self._instant_ns, fact.ts_ns), seq
        if self._seams:
            is_new = seq >= self._first_seq
            self._told.append((self._replay_ns if is_new else self._instant_ns, seq))

    def _draft(self, fact: Fact) -> Iterator[Draft]:
        """The record of a fact, if it is not stored already; before the first that of the import.

        A run is replayed from its first record on, so that one stands where new ones begin.
        """
        of_dropped_time = self._is_of_dropped_time(fact)
        drafts: list[Draft | None] = []
        if not self._is_old(fact):
            if self._begun is not None:
                self._begun.ts_ns = max(self._begun.ts_ns, self._instant_ns)
                self._replay_ns = self._begun.ts_ns
                drafts.append(self._new(self._begun, of_dropped_time=False))
                self._begun = None
            drafts.append(self._new(fact, of_dropped_time=of_dropped_time))
        if drafts and drafts[-1] is not None:
            self._replay_ns = max(self._replay_ns, fact.ts_ns)
        if fact.seq is not None:
            fact.cause = None  # it is told: what comes of it needs its number alone
            if not isinstance(fact.body, OWN):
                self._note(fact, fact.seq)
        return filter(None, drafts)

    def _new(self, fact: Fact, *, of_dropped_time: bool) -> Draft | None:
        if of_dropped_time:
            self._left_out += 1
            return None
        self._pipeline.count(fact)
        if self._resumed is not None and self._may_be_stored(fact):
            fact.seq = self._resumed.take(fact)
            if fact.seq is not None:
                return None
        fact.seq = self._next_seq
        self._next_seq += 1
        self._by_kind[fact.body.kind] += 1
        cause = fact.cause.seq if fact.cause is not None else None
        # The pipeline found all readable but the findings that it put in the place of others.
        is_sound = not isinstance(fact.body, FindingReported)
        return Draft(fact.ts_ns, fact.body, fact.evidence, cause, is_sound)

    def _may_be_stored(self, fact: Fact) -> bool:
        """Where records cannot go after the killed import's, a new one begins and ends."""
        return self._in_place or not isinstance(fact.body, ImportStarted | ImportCompleted)

    def _is_old(self, fact: Fact) -> bool:
        """Whether an earlier import reported it; then the fact gets the number of its record."""
        if self._standing is not None and not isinstance(fact.body, OWN):
            fact.seq = self._standing.take(fact)
            if fact.seq is not None:
                return True
        if isinstance(fact.body, FindingReported):
            return fact.body in self._known_findings
        if fact.body.kind.startswith("ledger."):
            return self._coverage.holds(fact.evidence)
        if self._earlier is not None:
            fact.seq = self._earlier.take(fact)
        return fact.seq is not None

    def _is_of_dropped_time(self, fact: Fact) -> bool:
        """Whether records of its time were dropped: it may be one of those, come back."""
        if self._latest_ts_ns is None or fact.ts_ns > self._latest_ts_ns:
            self._latest_ts_ns = fact.ts_ns
        if self._dropped_ts_ns is None or isinstance(fact.body, ImportStarted | ImportCompleted):
            return False
        return self._latest_ts_ns <= self._dropped_ts_ns

    def finish(self, report: NodeReport) -> None:
        report.accounts = self._pipeline.totals()
        report.confirmed = dict(sorted(self._pipeline.confirmed.items()))
        report.findings = self._pipeline.findings
        report.added = sum(self._by_kind.values())
        report.by_kind = dict(sorted(self._by_kind.items()))
        report.resumed = bool(self._interrupted)
        report.left_out = self._left_out
        report.superseded = self._superseded
