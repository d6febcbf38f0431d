"""Histories: the same records from a ledger, a recording, or memory."""

import os
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import pytest
import zstandard

from kubeledger.analyze.histories.history import (
    History,
    histories_of_ledger,
    histories_of_recording,
    history_of_reader,
)
from kubeledger.analyze.histories.sources import is_ledger, is_recording, open_histories
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.standalone import read_recording, write_recording
from kubeledger.model.bodies.node import KubeletStarted, SettingsObserved
from kubeledger.model.errors import BadInputError, BadQuestionError
from kubeledger.model.record import Record
from kubeledger.replay.instants import renumbered
from kubeledger.testing.scene import Scene
from tests.recordings import RECORDINGS, import_recording
from tests.verify.histories import reader, recorded

KINDS = frozenset({KubeletStarted.kind, SettingsObserved.kind, "lifecycle.PodListed"})


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ledger, Path]:
    directory = tmp_path_factory.mktemp("node-b")
    ledger, _ = import_recording("node-b", directory / "ledger")
    path = directory / "b.ledger.jsonl.zst"
    write_recording(path, ledger.records("node-b"))
    return ledger, path


@pytest.fixture(scope="module")
def histories(places: tuple[Ledger, Path]) -> list[History]:
    ledger, path = places
    return [
        *histories_of_ledger(ledger),
        *histories_of_recording(path),
        history_of_reader("node-b", "memory", reader(recorded("node-b"))),
    ]


def by_seq(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda record: record.seq)


def test_all_read_the_same(histories: list[History]) -> None:
    for history in histories:
        assert history.node == "node-b"
        for _ in range(2):
            assert by_seq(history.read(None)) == by_seq(recorded("node-b"))
        some = by_seq(history.read(KINDS))
        assert some == [r for r in by_seq(recorded("node-b")) if r.kind in KINDS]
        assert list(history.read(frozenset())) == []


def test_all_verify_the_same(histories: list[History]) -> None:
    first, *others = [list(history.verify()) for history in histories]
    assert len(first) > 200
    assert all(other == first for other in others)


def test_records_by_number(histories: list[History]) -> None:
    records = {record.seq: record for record in recorded("node-b")}
    last = max(records)
    for history in histories:
        for seq in (1, 2, last // 2, last):
            assert history.record(seq) == records[seq]
        assert history.record(0) is None
        assert history.record(-1) is None
        assert history.record(last + 1) is None
        assert history.pick([last, 5, 5, 0, 10**9]) == [records[5], records[last]]
        assert history.pick([]) == []


def test_a_ledger_without_records_or_node(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l")
    with pytest.raises(BadQuestionError, match="holds no records yet"):
        histories_of_ledger(ledger)
    with pytest.raises(BadQuestionError, match="holds no records yet"):
        histories_of_ledger(ledger, "node-a")


def test_a_recording_is_checked_whole_before_use(tmp_path: Path) -> None:
    path = two_nodes(tmp_path)
    assert [history.node for history in histories_of_recording(path)] == ["node-1", "node-2"]
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(BadInputError, match="ends inside a record"):
        histories_of_recording(path)


def two_nodes(directory: Path) -> Path:
    """A recording of two nodes, node-2 first."""
    path = directory / "two.ledger.jsonl"
    records = [r for name in ("node-2", "node-1") for r in Scene("1.36.2", node=name).records]
    assert write_recording(path, records) == 2
    return path


@pytest.mark.slow
def test_sources_of_every_form_together(places: tuple[Ledger, Path], tmp_path: Path) -> None:
    """In their order; a node's own files are one source together, and leave no files."""
    ledger, path = places
    raw = str(RECORDINGS / "node-a.tar.zst")
    sources = [raw, str(path), str(ledger.path), str(two_nodes(tmp_path))]
    with open_histories(sources) as found:
        assert [history.node for history in found] == [
            "node-b", "node-b", "node-1", "node-2", "node-a",
        ]  # fmt: skip
        assert found[-1].label == raw
        assert len(list(found[-1].read(None))) == len(recorded("node-a"))
    with open_histories(sources, node="node-2") as found:
        assert [history.node for history in found] == ["node-2"]
    with open_histories(sources, node="node-z") as found:
        assert found == []


def test_what_is_a_ledger_and_what_a_recording(places: tuple[Ledger, Path]) -> None:
    """By what is in a directory, by the name of a file or its content."""
    ledger, path = places
    assert is_ledger(ledger.path)
    assert not is_ledger(path)
    assert not is_ledger(path.parent)
    assert is_recording(path)
    assert is_recording(Path("x.ledger.jsonl"))
    assert not is_recording(Path("x.jsonl"))


@pytest.mark.parametrize("packed", [False, True])
def test_a_recording_of_any_name(places: tuple[Ledger, Path], tmp_path: Path, packed: bool) -> None:
    """It begins with a record; what is damaged there is found by whoever reads it."""
    data = places[1].read_bytes()
    data = data if packed else zstandard.ZstdDecompressor().stream_reader(data).read()
    path = tmp_path / "records.txt"
    path.write_bytes(data)
    assert is_recording(path)
    with open_histories([str(path)]) as found:
        assert [history.node for history in found] == ["node-b"]
    path.write_bytes(data[: 1000 if packed else 20])
    assert not is_recording(path)


@pytest.mark.parametrize("data", [b"", b"{", b'{"node":"x"}\n', b"\x28\xb5\x2f\xfd", b"I1121 x\n"])
def test_what_is_no_recording(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.json").write_bytes(data)
    os.mkfifo(tmp_path / "pipe")
    assert not any(map(is_recording, (tmp_path / "x.json", tmp_path, tmp_path / "pipe")))
    assert not is_recording(Path("a\0b"))


def test_a_bomb_is_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(zstandard.compress(b"\0" * (256 << 20)))
    tracemalloc.start()
    assert not is_recording(path)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_a_source_without_a_name() -> None:
    with pytest.raises(BadQuestionError, match="has no name"), open_histories([""]):
        pass


def test_excerpts_are_histories_of_their_own(tmp_path: Path) -> None:
    """Numbered from 1, causes with them; a cause that was left out is none."""
    kept = [record for record in by_seq(recorded("node-b")) if record.seq % 3 != 0]
    excerpt = list(renumbered(kept))
    assert [record.seq for record in excerpt] == list(range(1, len(kept) + 1))
    number = {old.seq: new.seq for old, new in zip(kept, excerpt, strict=True)}
    causes = 0
    for old, new in zip(kept, excerpt, strict=True):
        assert (new.ts_ns, new.body, new.evidence) == (old.ts_ns, old.body, old.evidence)
        assert new.cause == (number.get(old.cause) if old.cause is not None else None)
        causes += new.cause is not None
    assert causes > 0
    write_recording(tmp_path / "e.ledger.jsonl", excerpt)
    assert list(read_recording(tmp_path / "e.ledger.jsonl")) == excerpt


def test_excerpts_of_two_nodes() -> None:
    one, two = Scene("1.36.2", settings={}), Scene("1.36.2", settings={}, node="node-2")
    mixed = [one.records[1], two.records[0], two.records[1]]
    assert [(r.node, r.seq) for r in renumbered(mixed)] == [
        ("node-1", 1), ("node-2", 1), ("node-2", 2),
    ]  # fmt: skip
