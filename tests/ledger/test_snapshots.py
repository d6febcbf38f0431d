from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import msgspec
import pytest
import zstandard

from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.snapshots import Snapshot, SnapshotStore
from kubeledger.ledger.storage import VERDICTS
from kubeledger.model.errors import LedgerUnavailableError
from tests.ledger.making import NODE, append, batch, import_of, ledger_of


def snapshot(ledger: Ledger, seq: int, state: bytes = b"state") -> Snapshot:
    """Of the state as of ``seq``, where record n has the time n - 1."""
    digest = ledger.digest_at(NODE, seq)
    assert digest is not None
    return Snapshot(seq=seq, ts_ns=seq - 1, version="1", chain=digest.hex(), state=state)


def newest(
    ledger: Ledger, upto_seq: int | None = None, upto_ts_ns: int | None = None, after_seq: int = 0
) -> tuple[Snapshot | None, list[str]]:
    """The usable one, and the notes about those that are not."""
    store = ledger.snapshots(NODE)
    runs = ledger.info(NODE).runs
    found = store.newest(
        "1",
        runs,
        lambda seq: ledger.digest_at(NODE, seq),
        after_seq=after_seq,
        upto_seq=upto_seq,
        upto_ts_ns=upto_ts_ns,
    )
    return found, store.notes


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Ten records with snapshots of 3, 6 and 9."""
    ledger = ledger_of(tmp_path / "l", batch(0, 10))
    store = ledger.snapshots(NODE)
    for seq in (6, 3, 9):
        store.save(snapshot(ledger, seq, b"state of %d" % seq))
    return ledger


def path_of(ledger: Ledger, seq: int) -> Path:
    return ledger.path / "nodes" / NODE / "snapshots" / f"{seq:020d}.snapshot"


@pytest.mark.parametrize(
    ("upto_seq", "upto_ts_ns", "expected"),
    [
        (None, None, 9), (10, None, 9), (9, None, 9), (8, None, 6), (5, None, 3), (2, None, None),
        (None, 8, 9), (None, 7, 6), (None, 2, 3), (None, 1, None), (8, 2, 3),
    ],
)  # fmt: skip
def test_the_newest_one_in_bounds(
    ledger: Ledger, upto_seq: int | None, upto_ts_ns: int | None, expected: int | None
) -> None:
    found, notes = newest(ledger, upto_seq=upto_seq, upto_ts_ns=upto_ts_ns)
    assert (found.seq if found else None) == expected
    assert found is None or found.state == b"state of %d" % found.seq
    assert notes == []


def test_one_of_records_that_were_dropped_is_not_used(ledger: Ledger) -> None:
    after = [newest(ledger, after_seq=seq)[0] for seq in (8, 9)]
    assert [found.seq if found else None for found in after] == [9, None]


def framed(data: bytes) -> bytes:
    return data + b"%08x\n" % crc32(data)


def bomb(data: bytes) -> bytes:
    """A frame that claims more than the header says."""
    head, _, _ = data.partition(b"\n")
    return framed(head + b"\n" + zstandard.ZstdCompressor().compress(b"\0" * 10_000_000))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        *((lambda data, size=size: data[:size], "its bytes are damaged") for size in (0, 1, 9, -1)),
        (bomb, "its bytes are damaged"),
        (lambda data: framed(data[:-9].replace(b'"seq":9', b'"seq":8')), "it is of another form"),
        (lambda data: framed(data[:-9].replace(b"node-a", b"node-b")), "it is of another form"),
        (lambda data: framed(data[:-9].replace(b'"version":"1"', b'"version":"2"')), "form (2)"),
        (lambda data: framed(data[:-9].replace(b'"chain":"', b'"chain":"0')), "the ledger's chain"),
    ],
)
def test_a_snapshot_that_does_not_fit_is_passed_over(
    ledger: Ledger, spoil: Callable[[bytes], bytes], reason: str
) -> None:
    """With a note; the one before is taken."""
    path_of(ledger, 9).write_bytes(spoil(path_of(ledger, 9).read_bytes()))
    found, (note,) = newest(ledger)
    assert found is not None
    assert found.seq == 6
    assert note.startswith("the snapshot of record 9 of node-a is not used: ")
    assert reason in note


def test_neither_a_name_nor_another_ledger_is_believed(tmp_path: Path, ledger: Ledger) -> None:
    """A snapshot of another record, of one that is not there, of a chain that was written anew."""
    path_of(ledger, 6).rename(path_of(ledger, 10))
    path_of(ledger, 99).write_bytes(path_of(ledger, 9).read_bytes())
    store = ledger.snapshots(NODE)
    store.save(msgspec.structs.replace(snapshot(ledger, 9), seq=98))
    found, notes = newest(ledger)
    assert found is not None
    assert found.seq == 9
    assert [note.partition(" of node-a")[0] for note in notes] == [
        f"the snapshot of record {seq}" for seq in (99, 98, 10)
    ]
    other = ledger_of(tmp_path / "other", batch(5, 10))
    path_of(ledger, 9).parent.rename(path_of(other, 9).parent)
    assert newest(other)[0] is None
    assert "the ledger's chain is not the one" in newest(other)[1][3]


def test_a_later_import_of_older_records_makes_it_useless(ledger: Ledger) -> None:
    """What it holds is no longer the beginning of the replay; earlier ones still are."""
    append(ledger, import_of([4, 5], "d"))
    found, notes = newest(ledger)
    assert found is not None
    assert found.seq == 3
    assert ["records imported later" in note for note in notes] == [True, True]


def test_saving_again_and_dropping(ledger: Ledger) -> None:
    """The same record twice is one file; all can go."""
    store = ledger.snapshots(NODE)
    store.save(snapshot(ledger, 9, b"again"))
    found, _ = newest(ledger)
    assert found is not None
    assert found.state == b"again"
    assert store.seqs() == [3, 6, 9]
    store.drop(4, 8)
    assert store.seqs() == [3, 9]
    store.drop()
    assert store.seqs() == []
    assert newest(ledger) == (None, [])


def test_large_and_empty_states(ledger: Ledger) -> None:
    store = ledger.snapshots(NODE)
    for state in (b"", b"\0\n" * 3_000_000):
        path = store.save(snapshot(ledger, 10, state))
        found, _ = newest(ledger)
        assert found is not None
        assert found.state == state
        assert path.stat().st_size < 10_000


def test_a_disk_that_refuses(tmp_path: Path) -> None:
    """Saving tells; it is up to the caller whether that matters."""
    (tmp_path / "snapshots").write_text("in the way")
    store = SnapshotStore(tmp_path, NODE)
    with pytest.raises(LedgerUnavailableError, match="cannot save a snapshot"):
        store.save(Snapshot(seq=1, ts_ns=0, version="1", chain="00" * 32, state=b""))


def test_what_is_kept_of_something_else_is_not_believed(ledger: Ledger) -> None:
    """Its bytes may well be read as what is asked for."""
    store = ledger.snapshots(NODE, VERDICTS)
    path = store.save(snapshot(ledger, 3))
    assert store.load(3, "1") is not None
    path.write_bytes(path_of(ledger, 3).read_bytes())
    assert store.load(3, "1") is None
    assert store.flaw(3, None) == "it belongs elsewhere"
