"""What live sources observe becomes records, while the node goes on.

One step takes what all sources have, makes it durable (``capture``), and appends the facts that it
settles. Start and resume are one path: the open chapter is read through a pipeline that stays open
at its end, and what the ledger holds of it already is found again, or superseded. A chapter ends as
an import of all of it, which has the last word on each of its records.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from kubeledger.ingest.coverage import Coverage
from kubeledger.ingest.ingest import Ingestion, NodeReport, history_of, ingest
from kubeledger.ingest.live import LivePipeline
from kubeledger.ingest.planning.bundle import find_bundles
from kubeledger.ingest.planning.node_split import split_by_node
from kubeledger.ingest.planning.options import ImportOptions
from kubeledger.ingest.planning.plan import Plan, make_plan
from kubeledger.ingest.sources.collect import Collected
from kubeledger.ingest.sources.detect import FORMATS
from kubeledger.ingest.sources.documents import Document as DocumentFile
from kubeledger.ingest.sources.facts import Fact
from kubeledger.ingest.sources.prefix import ANY_ENTRY
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.retention import Policy
from kubeledger.ledger.writer import LedgerWriter
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import NS_PER_S
from kubeledger.record.accounting import Accounting
from kubeledger.record.capture import Capture
from kubeledger.record.chapters import GAPS, Chapter, gap_line
from kubeledger.record.metrics import BYTES_WRITTEN, Metrics
from kubeledger.record.observations import (
    POLL_BYTES,
    Document,
    Gap,
    Lines,
    Observation,
    Source,
    size_of,
)
from kubeledger.record.sources.background import BackgroundSource
from kubeledger.replay.dropping import Dropped, drop_of_node

__all__ = ["Limits", "Recorder"]

_FIRST_LOOK_NS = 2 * NS_PER_S
"""A chapter is first read when it has a log; without one, this long after its begin."""
_LOOKS_AGAIN_NS = tuple(minutes * 60 * NS_PER_S for minutes in (1, 4, 15))
"""At these ages a chapter is read again, with all that was learned since."""
_LOOK_BYTES_MAX = 16 << 20
"""A larger chapter is read again before it ends only if what came asks for it."""
_LOOK_SHARE = 20
"""Reading again takes at most one part in 20 of the time."""
_ROUND_S = 60
"""How long a recorder that is to end waits for answers."""
_DAY_NS = 24 * 3600 * NS_PER_S
_KILL = b"oom-kill"

Make = Callable[[str | None], Source]
"""Makes a source with the cursor at which it was left."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """When a chapter ends, and a segment of the ledger.

    Attributes:
        bytes_max: of observations.
        age_max_ns: after its first batch.
        keep_ns: as a chapter ends, older records are dropped, but for what is to be shipped first
            (``ledger.retention``); None: none are. Longer than a chapter.
        segment_age_max_ns: a segment is sealed at this age, however small; None: when it is full.
    """

    bytes_max: int = 256 << 20
    age_max_ns: int = _DAY_NS
    keep_ns: int | None = None
    segment_age_max_ns: int | None = None


class Recorder:
    """Records one node into a ledger, as its only writer.

    Attributes:
        appended: records so far.
        ended: reports of the imports that ended chapters.
        dropped: what was dropped after them.
        unread: chapters that could not be imported, and why; they are kept.
    """

    def __init__(
        self,
        ledger: Ledger,
        writer: LedgerWriter,
        node: str,
        sources: Mapping[str, Make],
        now_ns: int,
        limits: Limits | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """Go on where the capture was left, or begin.

        Args:
            ledger: where records and capture go.
            writer: of the ledger.
            node: whose; the name that its records get.
            sources: name -> source; made with their cursors.
            now_ns: the present, UTC.
            limits: when chapters end.
            metrics: are kept up to date.

        Raises:
            KubeledgerError: the capture cannot be opened, a source cannot be made.
        """
        self.appended = 0
        self.ended: list[NodeReport] = []
        self.dropped: list[Dropped] = []
        self.unread: list[tuple[Chapter, BadInputError]] = []
        self._ledger = ledger
        self._writer = writer
        self._node = node
        self._limits = limits or Limits()
        self._metrics = metrics or Metrics()
        self._accounting = Accounting(self._metrics)
        self._sealed_ns = now_ns
        self._capture = Capture(ledger.path, node, now_ns)
        if self._capture.chapter.damaged:
            self._leave_damaged(now_ns)
        self._import_ended()
        cursors = self._capture.cursors
        self._sources = [make(cursors.get(name)) for name, make in sources.items()]
        self._reading: _Reading | None = None
        self._looked_ns = self._next_look_ns = 0
        self._outdated = True
        self._look(now_ns)

    def step(self, now_ns: int) -> bool:
        """Take what the sources have by now; whether there may be more at once.

        Raises:
            KubeledgerError: a source can no longer be read, or the disk is full; what is durable
                stays so, and another recorder goes on after it.
        """
        cursors: dict[str, str] = {}
        seen: list[Observation] = []
        more = False
        for source in self._sources:
            given = list(source.poll(now_ns))
            self._accounting.polled(source.name, given, now_ns)
            moved = [each.cursor for each in given if each.cursor is not None]
            cursors |= {source.name: moved[-1]} if moved else {}
            more = more or size_of(given) >= POLL_BYTES // 2
            seen += given
        if self._is_full(now_ns) and not self._is_inside_an_entry(seen):
            self.end_chapter(now_ns)
        if seen:
            size_bytes = self._capture.append(now_ns, cursors, seen)
            self._metrics.add(BYTES_WRITTEN, size_bytes, "capture")
        self._read(seen, now_ns, more=more)
        self._seal_by_age(now_ns)
        self._accounting.stepped(now_ns, given=bool(seen), more=more)
        return more

    def _seal_by_age(self, now_ns: int) -> None:
        age_max_ns = self._limits.segment_age_max_ns
        if age_max_ns is not None and now_ns - self._sealed_ns >= age_max_ns:
            self._sealed_ns = now_ns
            self._writer.seal_open()

    def _is_full(self, now_ns: int) -> bool:
        """Whether the chapter is to end, once no entry of its log goes on after it."""
        begun_ns = self._capture.chapter.begun_ns or now_ns
        return (
            self._capture.size_bytes >= self._limits.bytes_max
            or now_ns - begun_ns >= self._limits.age_max_ns
        )

    def _is_inside_an_entry(self, seen: Iterable[Observation]) -> bool:
        """Whether what came goes on with an entry of the log: it may have several lines."""
        log = self._reading.log if self._reading is not None else None
        come = [each.data for each in seen if isinstance(each, Lines) and each.stream == log]
        return bool(come) and ANY_ENTRY.search(come[0].partition(b"\n")[0]) is None

    def drain(self, clock: Callable[[], int]) -> None:
        """Take all that the sources have, and end the chapter with it.

        Raises:
            KubeledgerError: as :meth:`step`.
        """
        self.step(clock())
        for source in self._sources:
            if isinstance(source, BackgroundSource):
                source.wait(_ROUND_S)
        while self.step(clock()):
            pass
        self.end_chapter(clock())

    def end_chapter(self, now_ns: int) -> None:
        """End the open chapter: import all of it, and begin the next.

        Raises:
            KubeledgerError: as :meth:`step`.
        """
        self._reading = None
        self._capture.end_chapter(now_ns)
        self._import_ended()
        self._drop_old(now_ns)

    def _leave_damaged(self, now_ns: int) -> None:
        """End a chapter of which some is lost, and say so in it."""
        chapter = self._capture.chapter
        reason = f"{chapter.damaged} bytes of what had been captured are damaged"
        gap = Gap("capture", reason, chapter.begun_ns, chapter.at_ns)
        self._capture.append(now_ns, {}, [gap])
        self._capture.end_chapter(now_ns)

    def _drop_old(self, now_ns: int) -> None:
        keep_ns = self._limits.keep_ns
        if keep_ns is not None and self._node in self._ledger.nodes():
            words = f"keep {keep_ns // _DAY_NS} days"
            policy = Policy(before_ns=now_ns - keep_ns, words=words)
            found = drop_of_node(self._ledger, self._writer, self._node, policy, now_ns)
            if found.record_seq is not None:
                self.dropped.append(found)

    def close(self) -> None:
        """Close sources and capture; the chapter stays open for the next recorder."""
        for source in self._sources:
            source.close()
        self._capture.close()

    # --- the open chapter ----------------------------------------------------------------

    def _read(self, seen: Sequence[Observation], now_ns: int, *, more: bool) -> None:
        if self._reading is not None:
            self._append(self._reading, self._reading.take(seen, now_ns))
        if self._wants_look(seen, now_ns) and now_ns >= self._next_look_ns:
            self._look(now_ns)
        if self._reading is not None and not more:
            self._append(self._reading, self._reading.pass_time(now_ns))

    def _wants_look(self, seen: Sequence[Observation], now_ns: int) -> bool:
        """Whether the chapter is to be read again from its begin: more is known of it by now."""
        begun_ns = self._capture.chapter.begun_ns or now_ns
        due = (begun_ns + age_ns for age_ns in _LOOKS_AGAIN_NS)
        self._outdated = (
            self._outdated
            or self._reading is None
            or self._reading.is_outdated(seen)
            or (
                any(self._looked_ns < due_ns <= now_ns for due_ns in due)
                and self._capture.size_bytes <= _LOOK_BYTES_MAX
            )
        )
        return self._outdated

    def _look(self, now_ns: int) -> None:
        """Read the chapter from its begin, as far as it goes."""
        begun_ns = time.monotonic_ns()
        self._reading, self._looked_ns, self._outdated = None, now_ns, False
        chapter = Chapter(self._capture.chapter.path)
        with suppress(BadInputError):  # there is nothing that an import could read, so far
            plan = plan_of(chapter, self._node)
            waits = now_ns - (chapter.begun_ns or now_ns) < _FIRST_LOOK_NS
            if plan.timing.logs or not waits:
                recording = _recording(self._node, chapter)
                plan.sources, plan.digest, plan.recorded = (), recording, recording
                self._reading = _Reading(plan, self._ledger, self._writer)
                self._append(self._reading, self._reading.begin(now_ns))
        self._next_look_ns = now_ns + _LOOK_SHARE * (time.monotonic_ns() - begun_ns)

    def _append(self, reading: _Reading, facts: Iterable[Fact]) -> None:
        for drafts in reading.ingestion.drafts(facts):
            before_bytes = self._writer.appended_bytes
            self.appended += len(self._writer.append(self._node, drafts))
            self._accounting.appended(drafts, self._writer.appended_bytes - before_bytes)

    def _goes_on(self, *_: int) -> None:
        """An import takes its time; the recorder does not hang."""
        self._metrics.loop_turned()

    # --- chapters that were ended ----------------------------------------------------------

    def _import_ended(self) -> None:
        for chapter in self._capture.ended():
            try:
                plan = plan_of(chapter, self._node)
            except BadInputError as error:
                if chapter.size_bytes:
                    self._capture.put_aside(chapter)
                    self.unread.append((chapter, error))
                    continue
            else:
                # Of a damaged one not all is read again that records rest on: none is superseded.
                plan.recorded = None if chapter.damaged else _recording(self._node, chapter)
                options = ImportOptions(node=self._node)
                before_bytes = self._writer.appended_bytes
                report = ingest(plan, self._ledger, self._writer, options, self._goes_on)
                self.ended.append(report)
                self.appended += report.added
                size_bytes = self._writer.appended_bytes - before_bytes
                self._accounting.imported(report.by_kind, size_bytes)
            self._capture.drop(chapter)


class _Reading:
    """The open chapter on its way through a pipeline into the ledger."""

    def __init__(self, plan: Plan, ledger: Ledger, writer: LedgerWriter) -> None:
        self._pipeline = LivePipeline(plan)
        history = history_of(ledger, writer, plan.context.node)
        self.ingestion = Ingestion(self._pipeline, ledger, writer, history, Coverage({}))
        self._documents = {file.source.name for file in plan.bundle.files if file.survey is None}

    @property
    def log(self) -> str | None:
        """Name of the log that is followed."""
        return self._pipeline.log

    def is_outdated(self, seen: Sequence[Observation]) -> bool:
        """Whether what came can only be read with all the rest.

        That is another log than the one that is followed; a kernel log that reports a kill,
        whose time other sources show; or a log that shows another time zone than was assumed.
        """
        others = [
            each for each in seen if isinstance(each, Lines) and each.stream != self._pipeline.log
        ]
        return self._pipeline.is_misplaced or any(
            each.stream not in self._documents or _KILL in each.data for each in others
        )

    def begin(self, now_ns: int) -> Iterable[Fact]:
        """Facts of what there is, and which records of an earlier look hold no more."""
        yield from self._pipeline.begin()
        yield from self._pipeline.pass_time(now_ns)
        yield from self.ingestion.reconcile(now_ns)

    def take(self, seen: Iterable[Observation], now_ns: int) -> Iterable[Fact]:
        """Facts of what came."""
        for each in seen:
            match each:
                case Lines() if each.stream == self._pipeline.log:
                    yield from self._pipeline.lines(each.data, now_ns)
                case Document() if each.format in FORMATS:  # others are only kept
                    source = _InMemory(each.name, each.data, each.ts_ns)
                    yield from self._document(source, each.format, each.ts_ns)
                case Gap():
                    source = _InMemory(GAPS, gap_line(each, now_ns), now_ns)
                    yield from self._document(source, "gaps", now_ns)
                case _:
                    pass

    def _document(self, source: SourceFile, form: str, read_ns: int) -> Iterator[Fact]:
        document = DocumentFile(source, form, read_ns, digest=source.name)
        return self._pipeline.document(document)

    def pass_time(self, now_ns: int) -> Iterable[Fact]:
        """Facts that waited long enough."""
        return self._pipeline.pass_time(now_ns)


class _InMemory(SourceFile):
    """A document that came just now."""

    def __init__(self, name: str, data: bytes, mtime_ns: int) -> None:
        super().__init__(name, Path(name), mtime_ns)
        self._data = data

    def chunks(self) -> Iterator[bytes]:
        """All of it."""
        yield self._data


def plan_of(chapter: Chapter, node: str) -> Plan:
    """How an import reads a chapter.

    Raises:
        BadInputError: it holds nothing that one could read.
    """
    tree = Collected("the capture", is_tree=True, files=chapter.files(), skipped={})
    options = ImportOptions(node=node)
    # Held documents would take ten times their size: a recorder has little room, and much time.
    (bundle,) = split_by_node(find_bundles([tree], options, held_bytes_max=0), options)
    return make_plan(bundle, options)


def _recording(node: str, chapter: Chapter) -> str:
    """Identity of a chapter in the ledger: that of its records before it is imported."""
    return hashlib.blake2b(f"{node}\n{chapter.path.stem}".encode(), digest_size=32).hexdigest()
