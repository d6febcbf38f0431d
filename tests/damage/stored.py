"""A small ledger, its copy and a small lake, with all that can be in them, and what they answer."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec
import pytest

from kubeledger.analyze.audit import audit_sources
from kubeledger.analyze.histories import derived, verdicts
from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.analyze.sql.api import connect
from kubeledger.analyze.sql.listing import Filter, list_records
from kubeledger.analyze.why import answers_to
from kubeledger.fleet.compaction import compact
from kubeledger.fleet.generation import fetch_ledger
from kubeledger.fleet.lake import Lake
from kubeledger.fleet.query import connect_lake
from kubeledger.fleet.repair import flaws
from kubeledger.ingest.api import import_sources
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ledger.dropping import Policy
from kubeledger.ledger.history.history import History
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.storage import CARRIED, DERIVED
from kubeledger.model.errors import KubeledgerError
from kubeledger.record.capture import Capture
from kubeledger.record.observations import Lines
from kubeledger.remote.restore import find_copies, restore
from kubeledger.remote.shipping import Shipper
from kubeledger.remote.store import Store
from kubeledger.replay import refresh_snapshots, state_at
from kubeledger.replay.dropping import drop_by_policy
from kubeledger.replay.node.state import document
from tests.fleet.places import put_node
from tests.ingest.node_files import log_text

NODE = "node-x"
_POD = "default/web"
_QUERIES = ("SELECT * FROM events ORDER BY seq", "SELECT * FROM evidence ORDER BY seq")


def keep_of_few(patch: pytest.MonkeyPatch) -> None:
    """Let what grows with the records be kept of few of them, too."""
    for module in (derived, verdicts):
        patch.setattr(module, "KEPT_FROM", 1)


def write_ledger(place: Path, seconds: int = 2) -> Path:
    """Two imports, the first of them dropped; caches, a capture, and what was shipped."""
    ledger = Ledger.create(place / "ledger")
    for first in (0, 60):
        log = place / f"{first}" / "kubelet.log"
        log.parent.mkdir(parents=True)
        log.write_text(log_text(seconds=seconds, first=first))
        import_sources([str(log)], ledger, ImportOptions(node=NODE, year=2026))
        with ledger.writer() as writer:
            writer.seal_open()
    times = [record.ts_ns for record in ledger.records(NODE)]
    before_ns = (times[0] + times[-1]) // 2
    drop_by_policy(ledger, Policy(before_ns=before_ns, words="the first"), before_ns)
    with ledger.writer() as writer:
        writer.seal_open()
    refresh_snapshots(ledger, NODE)
    with TemporaryDirectory() as scratch:
        history = History(ledger, Path(scratch))
        history.cover(1)
        history.require_kept()
    list(Shipper(ledger, Store(str(place / "copy"), make=True)).ship())
    capture = Capture(ledger.path, NODE, 1)
    capture.append(2, {"log": "1"}, (Lines("kubelet.log", b"one\n", "1"),))
    capture.close()
    for answer in ledger_answers(ledger.path):
        assert not isinstance(answer, Refused), answer
    assert {path.parent.name for path in ledger.path.rglob("*.snapshot")} > {*DERIVED} - {CARRIED}
    return ledger.path


def write_grown(place: Path) -> Path:
    """Two imports of lone logs: what they hand on to the next stands beside their sources."""
    ledger = Ledger.create(place / "grown")
    for first in (0, 60):
        import_next(ledger, place / "days" / f"{first}", first)
    answers = grown_answers(ledger.path)
    assert not [answer for answer in answers if isinstance(answer, Refused)], answers
    assert list(ledger.path.rglob(f"{CARRIED}/*"))
    return ledger.path


def import_next(ledger: Ledger, directory: Path, first: int) -> list[str]:
    """Import the log of a minute; what is said about sources that are kept."""
    log = directory / "kubelet.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(log_text(seconds=2, first=first))
    report = import_sources([str(log)], ledger, ImportOptions(node=NODE, year=2026))
    with ledger.writer() as writer:
        writer.seal_open()
    said = [each.finding for bundle in report.bundles for each in bundle.findings]
    return [finding for finding in said if finding.startswith("kept_sources")]


def grown_answers(path: Path) -> list[object]:
    """As of any ledger, and what the next import comes to."""

    def next_import() -> object:
        with TemporaryDirectory() as scratch:
            ledger = Ledger.open(Path(shutil.copytree(path, Path(scratch) / "ledger")))
            if said := import_next(ledger, Path(scratch) / "next", 120):
                return Refused(", ".join(said))
            return [
                (each.ts_ns, msgspec.json.encode(each.body), each.evidence)
                for each in ledger.replay(NODE)
                if not each.kind.startswith("ledger.")
            ]

    return [*ledger_answers(path), _answer(next_import)]


def write_lake(place: Path, ledger: Path) -> str:
    """Two nodes, compacted, with an index."""
    lake = Lake.open_or_create(str(place / "lake"))
    for key in ("node-x", "node-y"):
        put_node(lake, ledger, key)
    scratch = place / "scratch"
    scratch.mkdir()
    compact(lake, scratch)
    lake.write_index()
    return lake.store.url


class Refused(NamedTuple):
    """An answer that is none, and says so."""

    words: str


def _answer(ask: Callable[[], object]) -> object:
    try:
        return ask()
    except KubeledgerError as error:
        return Refused(str(error))


def ledger_answers(path: Path) -> list[object]:
    """What commands say of a ledger, or that they cannot."""

    def records() -> object:
        return [msgspec.json.encode(each) for each in Ledger.open(path).records(NODE)]

    def state() -> object:
        return document(state_at(Ledger.open(path), NODE))

    def sql() -> object:
        with connect(path) as database:
            return [database.sql(query).fetchall() for query in _QUERIES]

    def verified() -> object:
        (history,) = histories_of_ledger(Ledger.open(path), NODE)
        return [msgspec.json.encode(each) for each in history.verify()]

    def why() -> object:
        histories = histories_of_ledger(Ledger.open(path), NODE)
        return [msgspec.json.encode(answers_to(each, histories)) for each in ("node", _POD)]

    def listed() -> object:
        ledger = Ledger.open(path)
        return [each.seq for each in list_records(ledger, Filter(pod=_POD))]

    return [_answer(ask) for ask in (records, state, sql, verified, why, listed)]


def is_ledger_told(path: Path) -> bool:
    """Whether an audit finds something, or refuses; the quick one first, which is a part of it."""

    def is_sound(quick: bool) -> Callable[[], object]:
        return lambda: audit_sources([], path, chain_only=quick).sound

    return not all(_answer(is_sound(quick)) is True for quick in (True, False))


def copy_answers(path: Path) -> list[object]:
    def restored() -> object:
        with TemporaryDirectory() as scratch:
            back = Path(scratch) / "back"
            store = Store(str(path))
            outcome = restore(store, find_copies(store), back)
            if outcome.failed or outcome.left_out:
                return Refused("told")
            return [raw.line for raw in Ledger.open(back).raw_lines(NODE)]

    return [_answer(restored)]


def lake_answers(path: Path) -> list[object]:
    """What a lake answers: over all nodes, and of one node's ledger."""

    def sql() -> object:
        with connect_lake(str(path)) as database:
            return [
                sorted(map(repr, database.sql(f"SELECT * FROM {view}").fetchall()))
                for view in ("records", "verdicts", "nodes", "failures")
            ]

    def ledger() -> object:
        lake = Lake.open(str(path))
        with TemporaryDirectory() as scratch:
            fetch_ledger(lake, lake.node("node-y"), Path(scratch) / "ledger")
            return [raw.line for raw in Ledger.open(Path(scratch) / "ledger").raw_lines(NODE)]

    return [_answer(ask) for ask in (sql, ledger)]


def is_lake_told(path: Path) -> bool:
    """Whether ``fleet repair --check`` finds something, or refuses."""
    return _answer(lambda: list(flaws(str(path)))) != []


class Change(NamedTuple):
    """What is done to a file: a bit of a byte turned, or the file removed."""

    path: Path
    at: int | None

    def __str__(self) -> str:
        return f"{self.path}@{'gone' if self.at is None else self.at}"


def changes(root: Path) -> list[Change]:
    """All of a directory's files; those that hold nothing have nothing to lose."""
    files = [each for each in sorted(root.rglob("*")) if each.is_file() and each.stat().st_size]
    return [Change(path, at) for path in files for at in (None, *range(path.stat().st_size))]


class Stored(NamedTuple):
    """Something that is stored.

    Attributes:
        root: directory of all its files.
        answers: what commands make of it.
        is_told: whether something is found by who looks for damage.
    """

    root: Path
    answers: Callable[[Path], list[object]]
    is_told: Callable[[Path], bool]

    def untold(self, chosen: Iterable[Change], every: int = 1) -> Iterator[Change]:
        """Changes of which nobody hears, for they change no answer.

        Args:
            chosen: some of ``changes``.
            every: of so many changes that are told one is tried on the commands, too.

        Raises:
            AssertionError: a command answers otherwise than before, and does not say so.
        """
        random = Random(0)
        before = self.answers(self.root)
        assert not self.is_told(self.root)
        for number, change in enumerate(chosen):
            data, status = change.path.read_bytes(), change.path.stat()
            if change.at is None:
                change.path.unlink()
            else:
                flipped = bytearray(data)
                flipped[change.at] ^= 1 << random.randrange(8)
                change.path.write_bytes(flipped)
            try:
                is_told = self.is_told(self.root)
                if not is_told or change.at is None or number % every == 0:
                    for was, answer in zip(before, self.answers(self.root), strict=True):
                        assert answer == was or isinstance(answer, Refused), str(change)
                if not is_told:
                    yield change
            finally:
                change.path.write_bytes(data)
                os.utime(change.path, ns=(status.st_atime_ns, status.st_mtime_ns))
