from __future__ import annotations

from pathlib import Path

import pytest

from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.snapshots import Snapshot, SnapshotStore
from kubeledger.model.errors import LedgerUnavailableError
from tests.ledger.making import NODE, append, batch, import_of, ledger_of


def snapshot(ledger: Ledger, seq: int, state: bytes = b"state", version: str = "1") -> Snapshot:
    """Of the state as of ``seq``, where record n has the time n - 1."""
    digest = ledger.digest_at(NODE, seq)
    assert digest is not None
    return Snapshot(seq=seq, ts_ns=seq - 1, version=version, chain=digest.hex(), state=state)


def newest(
    ledger: Ledger, version: str = "1", upto_seq: int | None = None, upto_ts_ns: int | None = None
) -> tuple[Snapshot | None, list[str]]:
    """The usable one, and the notes about those that are not."""
    store = ledger.snapshots(NODE)
    runs = ledger.info(NODE).runs
    found = store.newest(
        version,
        runs,
        lambda seq: ledger.digest_at(NODE, seq),
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
    """File of a snapshot."""
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
    """By record, by time, by both."""
    found, notes = newest(ledger, upto_seq=upto_seq, upto_ts_ns=upto_ts_ns)
    assert (found.seq if found else None) == expected
    assert found is None or found.state == b"state of %d" % found.seq
    assert notes == []


def test_a_flip_at_every_byte_is_noted(ledger: Ledger) -> None:
    """And the one before is taken."""
    path = path_of(ledger, 9)
    data = path.read_bytes()
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1 << position % 8
        path.write_bytes(changed)
        found, (note,) = newest(ledger)
        assert found is not None
        assert found.seq == 6
        assert "record 9" in note


def test_a_cut_snapshot_is_noted(ledger: Ledger) -> None:
    """Empty, too."""
    path = path_of(ledger, 9)
    data = path.read_bytes()
    for size in (0, 1, 9, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        found, notes = newest(ledger)
        assert found is not None
        assert found.seq == 6
        assert notes == ["the snapshot of record 9 of node-a is not used: its bytes are damaged"]


def test_another_form_of_state_is_stale(ledger: Ledger) -> None:
    """The owner's version decides."""
    found, notes = newest(ledger, version="2")
    assert found is None
    assert len(notes) == 3
    assert "another form (1)" in notes[0]


def test_another_chain_is_never_trusted(tmp_path: Path, ledger: Ledger) -> None:
    """A snapshot of another ledger's record, or of one that was lost and written anew."""
    other = ledger_of(tmp_path / "other", batch(5, 10))
    for seq in (3, 6, 9):
        path = path_of(other, seq)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(path_of(ledger, seq).read_bytes())
    found, notes = newest(other)
    assert found is None
    assert all("chain" in note for note in notes)


def test_a_renamed_snapshot_is_not_believed(ledger: Ledger) -> None:
    """The name is not the truth."""
    path_of(ledger, 6).rename(path_of(ledger, 10))
    found, notes = newest(ledger)
    assert found is not None
    assert found.seq == 9
    assert len(notes) == 1


def test_a_record_that_is_not_there(ledger: Ledger) -> None:
    """Of a ledger that was cut."""
    last = snapshot(ledger, 10)
    ledger.snapshots(NODE).save(
        Snapshot(seq=99, ts_ns=9, version="1", chain=last.chain, state=b"of the future")
    )
    found, notes = newest(ledger)
    assert found is not None
    assert found.seq == 9
    assert "record 99" in notes[0]


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
    assert store.drop() == 3
    assert store.seqs() == []
    assert newest(ledger) == (None, [])


def test_large_and_empty_states(ledger: Ledger) -> None:
    """Any bytes."""
    store = ledger.snapshots(NODE)
    for state in (b"", b"\0\n" * 3_000_000):
        path = store.save(snapshot(ledger, 10, state))
        found, _ = newest(ledger)
        assert found is not None
        assert found.state == state
        assert path.stat().st_size < 10_000


def test_a_bomb_is_not_unpacked(ledger: Ledger) -> None:
    """A frame that claims more than the header says is damage."""
    import zlib

    import zstandard

    head, _, _ = path_of(ledger, 9).read_bytes().partition(b"\n")
    data = head + b"\n" + zstandard.ZstdCompressor().compress(b"\0" * 10_000_000)
    path_of(ledger, 9).write_bytes(data + b"%08x\n" % zlib.crc32(data))
    found, (note,) = newest(ledger)
    assert found is not None
    assert found.seq == 6
    assert "damaged" in note


def test_a_disk_that_refuses(tmp_path: Path) -> None:
    """Saving tells; it is up to the caller whether that matters."""
    (tmp_path / "snapshots").write_text("in the way")
    store = SnapshotStore(tmp_path, NODE)
    with pytest.raises(LedgerUnavailableError, match="cannot save a snapshot"):
        store.save(Snapshot(seq=1, ts_ns=0, version="1", chain="00" * 32, state=b""))
