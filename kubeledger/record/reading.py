"""What is captured becomes records, as it comes, beside the capture.

Start and resume are one path: the open chapter is read through a pipeline that stays open at its
end, and what the ledger holds of it already is found again, or superseded. A chapter that was ended
is imported as a whole, which has the last word on each of its records. However long that takes,
capturing goes on; and it can be stopped between any two pieces, as by a kill.
"""

from __future__ import annotations

import gc
import hashlib
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from kubeledger.ingest.ingest import Ingestion, NodeReport, history_of, ingest
from kubeledger.ingest.live import LivePipeline
from kubeledger.ingest.planning.bundle import ImportOptions, find_bundles
from kubeledger.ingest.planning.node_split import split_by_node
from kubeledger.ingest.planning.plan import Plan, make_plan
from kubeledger.ingest.sources.collect import Collected
from kubeledger.ingest.sources.detect import FORMATS
from kubeledger.ingest.sources.documents import Document as DocumentFile
from kubeledger.ingest.sources.items import Fact
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.ingest.standing import Coverage
from kubeledger.ledger.dropping import Policy
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.writer import LedgerWriter
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import NS_PER_S
from kubeledger.record.accounting import Accounting
from kubeledger.record.capture import Capture, Durable
from kubeledger.record.chapters import GAPS, Chapter, batches, gap_line
from kubeledger.record.observations import Document, Gap, Lines, Observation
from kubeledger.replay.dropping import Dropped, drop_of_node

_FIRST_LOOK_NS = 2 * NS_PER_S
"""A chapter is first read when it has a log; without one, this long after its begin."""
_LOOKS_AGAIN_NS = tuple(minutes * 60 * NS_PER_S for minutes in (1, 4, 15))
"""At these ages a chapter is read again, with all that was learned since."""
_LOOK_BYTES_MAX = 16 << 20
"""A larger chapter is read again before it ends only if what came asks for it."""
_LOOK_SHARE = 20
"""Reading again takes at most one part in 20 of the time."""
_DAY_NS = 24 * 3600 * NS_PER_S
_KILL = b"oom-kill"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """When a chapter ends, and a segment of the ledger.

    Attributes:
        bytes_max: of observations.
        age_max_ns: after its first batch.
        keep_ns: as a chapter ends, older records are dropped, but for what is to be shipped first
            (``ledger.dropping``); None: none are. Longer than a chapter.
        segment_age_max_ns: a segment is sealed at this age, however small; None: when it is full.
    """

    bytes_max: int = 256 << 20
    age_max_ns: int = _DAY_NS
    keep_ns: int | None = None
    segment_age_max_ns: int | None = None


class _Stopped(Exception):
    """Reading was asked to stop; what it has read is read again by the next one."""


class Reader:
    """Appends to the ledger what is durable of a capture, as the ledger's only writer.

    Attributes:
        appended: records so far.
        ended: reports of the imports of chapters that were ended.
        dropped: what was dropped after them.
        unread: chapters that could not be imported, and why; they are kept.
    """

    def __init__(
        self,
        ledger: Ledger,
        writer: LedgerWriter,
        node: str,
        capture: Capture,
        limits: Limits,
        accounting: Accounting,
    ) -> None:
        """Nothing is read yet."""
        self.appended = 0
        self.ended: list[NodeReport] = []
        self.dropped: list[Dropped] = []
        self.unread: list[tuple[Path, BadInputError]] = []
        self._ledger = ledger
        self._writer = writer
        self._node = node
        self._capture = capture
        self._limits = limits
        self._accounting = accounting
        self._stopped = False
        self._path: Path | None = None
        self._at = 0
        self._reading: _Reading | None = None
        self._outdated = True
        self._looked_ns = self._next_look_ns = 0
        self._sealed_ns = capture.durable.polled_ns

    def stop(self) -> None:
        """Let what another thread reads end soon, as if it were killed."""
        self._stopped = True

    def read(self) -> None:
        """Read what is durable by now.

        Raises:
            KubeledgerError: the ledger cannot be written; the next reader goes on after what is.
        """
        self._goes_on()
        while (durable := self._capture.durable).path != self._path:
            self._forget()
            self._path, self._next_look_ns = durable.path, 0
            if self._import_ended():
                self._drop_old(durable.polled_ns)
        with suppress(FileNotFoundError):  # removed by somebody; the next append puts it back
            self._read_open(durable)
        self._seal_by_age(durable.polled_ns)
        self._accounting.read(durable.polled_ns)

    def _goes_on(self, *_: int) -> None:
        if self._stopped:
            raise _Stopped

    # --- the open chapter ----------------------------------------------------------------

    def _read_open(self, durable: Durable) -> None:
        if self._reading is not None:
            self._take(self._reading, durable)
        throttled = self._looked_ns <= durable.polled_ns < self._next_look_ns  # a clock may be set
        if self._wants_look(durable) and not throttled:
            self._look(durable)
        if self._reading is not None and durable.settled_ns is not None:
            self._append(self._reading, self._reading.settle(durable.settled_ns))

    def _take(self, reading: _Reading, durable: Durable) -> None:
        """Read what has come."""
        for _, end, batch in batches(durable.path, self._at, durable.end):
            self._append(reading, reading.take(batch.seen, batch.at_ns))
            self._outdated = self._outdated or reading.is_outdated(batch.seen)
            self._at = end

    def _wants_look(self, durable: Durable) -> bool:
        """Whether the chapter is to be read again from its begin: more is known of it by now."""
        due = (durable.begun_ns + age_ns for age_ns in _LOOKS_AGAIN_NS)
        self._outdated = (
            self._outdated
            or self._reading is None
            or (
                any(self._looked_ns < due_ns <= durable.polled_ns for due_ns in due)
                and durable.size_bytes <= _LOOK_BYTES_MAX
            )
        )
        return self._outdated

    def _look(self, durable: Durable) -> None:
        """Read the chapter from its begin, as far as it goes."""
        begun_ns = time.monotonic_ns()
        self._forget()
        self._looked_ns, self._outdated = durable.polled_ns, False
        chapter = Chapter(durable.path, durable.end, self._goes_on)
        with suppress(BadInputError):  # there is nothing that an import could read, so far
            plan = plan_of(chapter, self._node)
            waits = durable.polled_ns - durable.begun_ns < _FIRST_LOOK_NS
            if plan.timing.logs or not waits:
                recording = _recording(self._node, chapter.path)
                plan.sources, plan.digest, plan.recorded = (), recording, recording
                self._reading = _Reading(plan, self._ledger, self._writer)
                self._append(self._reading, self._reading.begin(chapter.at_ns or 0))
        self._at = durable.end
        self._next_look_ns = durable.polled_ns + _LOOK_SHARE * (time.monotonic_ns() - begun_ns)

    def _forget(self) -> None:
        """Leave the present reading: assemblers refer to each other, so it is not freed by that."""
        if self._reading is not None:
            self._reading = None
            gc.collect()

    def _append(self, reading: _Reading, facts: Iterable[Fact]) -> None:
        for drafts in reading.ingestion.drafts(facts):
            before_bytes = self._writer.appended_bytes
            self.appended += len(self._writer.append(self._node, drafts))
            self._accounting.appended(drafts, self._writer.appended_bytes - before_bytes)
            self._goes_on()

    def _seal_by_age(self, now_ns: int) -> None:
        age_max_ns = self._limits.segment_age_max_ns
        if age_max_ns is not None and now_ns - self._sealed_ns >= age_max_ns:
            self._sealed_ns = now_ns
            self._writer.seal_open()

    # --- chapters that were ended ----------------------------------------------------------

    def _import_ended(self) -> bool:
        """Whether there were any."""
        path = None
        for path in self._capture.ended():
            chapter = Chapter(path, goes_on=self._goes_on)
            try:
                plan = plan_of(chapter, self._node)
            except BadInputError as error:
                if chapter.size_bytes:
                    self._capture.put_aside(path)
                    self.unread.append((path, error))
                    continue
            else:
                # Of a damaged one not all is read again that records rest on: none is superseded.
                plan.recorded = None if chapter.damaged else _recording(self._node, path)
                options = ImportOptions(node=self._node)
                before_bytes = self._writer.appended_bytes
                report = ingest(plan, self._ledger, self._writer, options, self._goes_on)
                self.ended.append(report)
                self.appended += report.added
                size_bytes = self._writer.appended_bytes - before_bytes
                self._accounting.imported(report.by_kind, size_bytes)
            self._capture.drop(path)
        return path is not None

    def _drop_old(self, now_ns: int) -> None:
        keep_ns = self._limits.keep_ns
        if keep_ns is not None and self._node in self._ledger.nodes():
            words = f"keep {keep_ns // _DAY_NS} days"
            policy = Policy(before_ns=now_ns - keep_ns, words=words)
            found = drop_of_node(self._ledger, self._writer, self._node, policy, now_ns)
            if found.record_seq is not None:
                self.dropped.append(found)


class ReadingThread:
    """Reads in a thread of its own, from its making to :meth:`close`."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._wake = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="kubeledger-read", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """There is more to read.

        Raises:
            Exception: as reading did; it has ended.
        """
        if self._error is not None:
            raise self._error
        self._wake.set()

    def _run(self) -> None:
        try:
            while self._wake.wait():
                self._wake.clear()
                self._reader.read()
        except _Stopped:
            pass
        except Exception as error:  # raised where it is waited for
            self._error = error

    def close(self) -> None:
        """Let it end, and wait for that."""
        self._reader.stop()
        self._wake.set()
        self._thread.join()


class _Reading:
    """The open chapter on its way through a pipeline into the ledger."""

    def __init__(self, plan: Plan, ledger: Ledger, writer: LedgerWriter) -> None:
        self._pipeline = LivePipeline(plan)
        self._is_reconciled = False
        history = history_of(ledger, writer, plan.context.node)
        self.ingestion = Ingestion(self._pipeline, ledger, writer, history, Coverage({}))
        self._documents = {file.source.name for file in plan.bundle.files if file.survey is None}

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

    def begin(self, written_ns: int) -> Iterable[Fact]:
        """Facts of what there is; its last lines were written then."""
        return self._pipeline.begin(written_ns)

    def take(self, seen: Iterable[Observation], now_ns: int) -> Iterable[Fact]:
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

    def settle(self, now_ns: int) -> Iterator[Fact]:
        """All that there was by then is taken: facts that waited long enough.

        With the first ones, which records of an earlier reading hold no more.
        """
        yield from self._pipeline.pass_time(now_ns)
        if not self._is_reconciled:
            self._is_reconciled = True
            yield from self.ingestion.reconcile(now_ns)


class _InMemory(SourceFile):
    """A document that came just now."""

    def __init__(self, name: str, data: bytes, mtime_ns: int) -> None:
        super().__init__(name, Path(name), mtime_ns)
        self._data = data

    def chunks(self) -> Iterator[bytes]:
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


def _recording(node: str, chapter: Path) -> str:
    """Identity of a chapter in the ledger: that of its records before it is imported."""
    return hashlib.blake2b(f"{node}\n{chapter.stem}".encode(), digest_size=32).hexdigest()
