"""A node's files as a live source: pieces of the log in odd sizes, documents when they are due."""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from kubeledger.ingest.api import import_sources
from kubeledger.ingest.klog.stamps import stamp_ns
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ingest.sources.detect import detect
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.writer import LedgerWriter
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S
from kubeledger.record.observations import Document, Gap, Lines
from kubeledger.record.reading import Limits
from kubeledger.record.recorder import Recorder
from kubeledger.replay.node.state import time_in_name

YEAR = 2026

Standing = tuple[int, str, bytes, tuple[Evidence, ...]]
"""Time, kind, body and evidence of a record."""


class _Line(NamedTuple):
    ts_ns: int
    text: bytes


class NodeFiles:
    """What a node left, as it would have come while it ran.

    Attributes:
        lines: of the log, each with the time at which it is there.
        documents: by time.
    """

    def __init__(self, root: Path, lines_max: int | None = None) -> None:
        """Read a node's directory; its documents up to the time of the last line that counts."""
        self.lines: list[_Line] = []
        latest_ns = 0
        content = (root / "kubelet.log").read_bytes().splitlines(keepends=True)
        for text in itertools.islice(content, lines_max):
            if text[:1] in b"IWEF" and text[5:6] == b" ":
                latest_ns = max(latest_ns, stamp_ns(text[1:21], YEAR))
            self.lines.append(_Line(latest_ns, text))
        self.last_ns = latest_ns
        self.documents: list[Document] = []
        for path in sorted(path for path in root.rglob("*") if path.is_file()):
            name = path.relative_to(root).as_posix()
            form = detect(SourceFile(name, path)).format
            ts_ns = time_in_name(name) or latest_ns
            if form is not None and name != "kubelet.log" and ts_ns <= latest_ns:
                self.documents.append(Document(name, form, path.read_bytes(), ts_ns))
        self.documents.sort(key=lambda document: document.ts_ns)

    def write(self, root: Path) -> Path:
        root.mkdir()
        (root / "kubelet.log").write_bytes(b"".join(line.text for line in self.lines))
        for document in self.documents:
            path = root / document.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(document.data)
        return root


class Feed:
    """The files, a piece of the log a poll; the cursor counts lines and documents.

    Attributes:
        now_ns: time of the node's clock.
    """

    name = "feed"

    def __init__(self, files: NodeFiles, ends: list[int], cursor: str | None = None) -> None:
        """Begin where it was left; ``ends``: numbers of lines after which a piece ends."""
        self._files = files
        self._ends = ends
        self._lines, self._documents = map(int, cursor.split()) if cursor else (0, 0)
        self.now_ns = files.lines[0].ts_ns
        self.gaps: list[Gap] = []

    @property
    def is_done(self) -> bool:
        files = self._files
        return self._lines == len(files.lines) and self._documents == len(files.documents)

    @property
    def _cursor(self) -> str:
        return f"{self._lines} {self._documents}"

    def poll(self, now_ns: int) -> Iterator[Lines | Document | Gap]:
        """The next piece, and the documents that are there by its end."""
        files = self._files
        yield from self.gaps
        self.gaps.clear()
        end = next((end for end in self._ends if end > self._lines), len(files.lines))
        piece = files.lines[self._lines : end]
        if piece:
            self._lines, self.now_ns = end, piece[-1].ts_ns
            yield Lines("kubelet.log", b"".join(line.text for line in piece), self._cursor)
        for document in files.documents[self._documents :]:
            if document.ts_ns <= self.now_ns:
                self._documents += 1
                yield msgspec.structs.replace(document, cursor=self._cursor)

    def close(self) -> None:
        """Nothing is open."""


def pieces(files: NodeFiles, seed: int, count: int) -> list[int]:
    chance = random.Random(seed)
    return sorted(chance.randrange(1, len(files.lines)) for _ in range(count - 1))


def record_on(
    ledger: Ledger,
    files: NodeFiles,
    ends: list[int],
    *,
    steps: int | None = None,
    limits: Limits | None = None,
    gaps: tuple[Gap, ...] = (),
) -> bool:
    """Record until all was given, and end the chapter; or for so many steps only, and stop there.

    Returns:
        whether all was given.
    """
    with ledger.writer() as writer:
        recorder, feed = _recorder(ledger, writer, files, ends, limits)
        feed.gaps += gaps
        for _ in itertools.count() if steps is None else range(steps):
            if feed.is_done:
                recorder.end_chapter(feed.now_ns)
                break
            recorder.step(feed.now_ns + NS_PER_S)
        recorder.close()
    return feed.is_done


def _recorder(
    ledger: Ledger, writer: LedgerWriter, files: NodeFiles, ends: list[int], limits: Limits | None
) -> tuple[Recorder, Feed]:
    feeds: list[Feed] = []

    def make(cursor: str | None) -> Feed:
        feeds.append(Feed(files, ends, cursor))
        return feeds[-1]

    now_ns = files.lines[0].ts_ns
    return Recorder(ledger, writer, "node-x", {Feed.name: make}, now_ns, limits), feeds[0]


def standing_records(ledger: Ledger) -> list[Standing]:
    """What holds, in the order of replay, without what each import tells of itself."""
    return [
        (
            record.ts_ns,
            record.kind,
            msgspec.json.encode(record.body, order="sorted"),
            record.evidence,
        )
        for record in ledger.replay("node-x")
        if not record.kind.startswith(("ledger.Import", "ledger.RecordsSuperseded"))
    ]


def standing_of_import(root: Path, directory: Path) -> list[Standing]:
    ledger = Ledger.create(directory)
    import_sources([str(root)], ledger, ImportOptions(node="node-x"))
    return standing_records(ledger)
