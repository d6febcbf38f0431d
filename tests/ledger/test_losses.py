"""Known losses of acknowledged records: told by a record, whatever happens on the way."""

import errno
from contextlib import suppress
from pathlib import Path

import pytest

from kubeledger.ledger.audit import audit
from kubeledger.ledger.audit_walk import ToldLoss
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import Loss as KnownLoss
from kubeledger.ledger.manifest import save_manifest
from kubeledger.ledger.recovery import CountedAnew
from kubeledger.ledger.snapshots import Snapshot
from kubeledger.ledger.storage import MANIFEST
from kubeledger.ledger.tail import Draft
from kubeledger.ledger.writer import LedgerWriter
from kubeledger.model.bodies.ledger import RecordsLost
from kubeledger.model.errors import LedgerUnavailableError
from tests.faults import LOSSES, Fault, FaultyDisk, Loss, PowerCut
from tests.ledger.making import (
    NODE,
    append,
    batch,
    copy,
    draft,
    import_of,
    ledger_of,
    segment_paths,
    seqs,
)

IMPORT = import_of(range(10, 15), "d1")
"""Seven records: the import's start, five facts, its end."""


def cut(ledger: Ledger, records: int, torn: int = 0) -> Ledger:
    """Leave only the first records of the open segment, and some bytes of the next."""
    path = segment_paths(ledger)[-1]
    lines = path.read_bytes().splitlines(keepends=True)
    size = sum(map(len, lines[:records])) + torn
    path.write_bytes(path.read_bytes()[:size])
    return ledger


def recovered(ledger: Ledger) -> Ledger:
    """Opened for writing once."""
    with ledger.writer():
        pass
    return ledger


def reported(ledger: Ledger) -> list[tuple[int, RecordsLost]]:
    found = ((record.seq, record.body) for record in ledger.records(NODE))
    return [(seq, body) for seq, body in found if isinstance(body, RecordsLost)]


def spans(ledger: Ledger) -> list[tuple[int, int, int]]:
    """Number, first and last record of each loss that a record tells of."""
    return [(seq, body.first_seq, body.last_seq) for seq, body in reported(ledger)]


def losses(ledger: Ledger) -> tuple[ToldLoss, ...]:
    """As an audit tells them."""
    return audit(ledger).nodes[0].losses


def test_what_the_record_tells(tmp_path: Path) -> None:
    """Which records, of which imports and times, and when they were missed."""
    ledger = ledger_of(tmp_path / "l", IMPORT, import_of([30, 31], "d2"))
    head = audit(ledger).nodes[0].head
    recovered(cut(ledger, 4))
    ((seq, body),) = reported(ledger)
    assert (seq, body.first_seq, body.last_seq, body.chain) == (5, 5, 11, head)
    assert (body.imports, body.others) == (("d1", "d2"), False)
    assert (body.first_ts_ns, body.last_ts_ns) == (12, 31)
    assert body.found_ts_ns > 10**18
    record = ledger.record(NODE, 5)
    assert record is not None
    assert record.ts_ns == 12, "the order of replay stays as it was"


@pytest.mark.parametrize(
    ("batches", "kept", "expected"),
    [
        ([batch(0, 4)], 2, ((), True)),
        ([batch(0, 4)], 0, ((), True)),
        ([IMPORT], 0, (("d1",), False)),
        ([IMPORT, batch(20, 2)], 8, ((), True)),
        ([IMPORT, batch(20, 2)], 6, (("d1",), True)),
        ([batch(0, 2), IMPORT], 1, (("d1",), True)),
        ([IMPORT[:-1]], 3, (("d1",), False)),
    ],
)
def test_whose_the_lost_records_were(
    tmp_path: Path, batches: list[list[Draft]], kept: int, expected: tuple[tuple[str, ...], bool]
) -> None:
    ledger = recovered(cut(ledger_of(tmp_path / "l", *batches), kept))
    ((_, body),) = reported(ledger)
    assert (body.imports, body.others) == expected
    assert audit(ledger).findings


@pytest.mark.parametrize(
    ("kept", "later", "others"),
    [
        (3, (), False),
        (3, (batch(20, 3),), True),
        (7, (batch(20, 3),), True),
        (3, (IMPORT[-1:],), True),
        (3, (batch(20, 3), import_of([30, 31], "d2")), True),
    ],
)
def test_others_behind_an_import_that_was_killed(
    tmp_path: Path, kept: int, later: tuple[list[Draft], ...], others: bool
) -> None:
    """Of what was appended by a later writer nobody knows whose it was: it never heals."""
    ledger = ledger_of(tmp_path / "l", IMPORT[:-1])
    for drafts in later:
        append(ledger, drafts)
    recovered(cut(ledger, kept))
    ((_, body),) = reported(ledger)
    assert ("d1" in body.imports, body.others) == (True, others)
    append(ledger, IMPORT, import_of([30, 31], "d2"))
    assert [loss.healed for loss in losses(ledger)] == [not others]


@pytest.mark.parametrize("lost", ["manifest", "mark"])
def test_a_killed_import_of_which_the_manifest_does_not_tell(tmp_path: Path, lost: str) -> None:
    """Where it is not known that nobody else wrote into its run, somebody may have."""
    ledger = ledger_of(tmp_path / "l", IMPORT[:-1])
    append(ledger, batch(20, 3))
    if lost == "manifest":
        (ledger.path / MANIFEST).unlink()
    else:
        manifest = ledger.manifest()
        manifest.nodes[NODE].runs[0].reopened_seq = None
        save_manifest(ledger.path, manifest)
    recovered(ledger)
    recovered(cut(ledger, 3))
    assert [body.others for _, body in reported(ledger)] == [True]


def test_a_loss_outlives_the_manifest(tmp_path: Path) -> None:
    """It is in the chain: made again from the records alone, the manifest knows it."""
    ledger = recovered(cut(ledger_of(tmp_path / "l", IMPORT), 3))
    known = ledger.info(NODE).losses
    (ledger.path / MANIFEST).unlink()
    assert ledger.info(NODE).losses == known
    append(ledger, batch(20, 1))
    assert ledger.manifest().nodes[NODE].losses == known
    assert [loss.seq for loss in ledger.info(NODE).missing] == [4]
    assert [finding.is_loss for finding in audit(ledger).findings] == [True]


def test_a_loss_that_no_record_tells_of_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Crash between the manifest and the record: audit and readers know, a writer tells."""
    ledger = cut(ledger_of(tmp_path / "l", batch(0, 3)), 0, torn=9)
    with monkeypatch.context() as patch:
        patch.setattr(LedgerWriter, "report_losses", lambda _: None)
        recovered(ledger)
    assert [loss.seq for loss in losses(ledger)] == [None]
    assert [loss.seq for loss in ledger.info(NODE).missing] == [0]
    recovered(ledger)
    assert spans(ledger) == [(1, 1, 3)]
    assert [loss.seq for loss in losses(ledger)] == [1]


def test_a_loss_whose_record_no_manifest_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Crash right behind the record: it is found, and not told twice."""
    ledger = cut(ledger_of(tmp_path / "l", batch(0, 3)), 1)
    with monkeypatch.context() as patch:
        patch.setattr(LedgerWriter, "report_losses", lambda _: None)
        recovered(ledger)
    manifest = (ledger.path / MANIFEST).read_bytes()
    recovered(ledger)
    assert (ledger.path / MANIFEST).read_bytes() != manifest
    (ledger.path / MANIFEST).write_bytes(manifest)
    assert [loss.seq for loss in losses(ledger)] == [2]
    assert [loss.seq for loss in ledger.info(NODE).missing] == [2]
    recovered(ledger)
    assert spans(ledger) == [(2, 2, 3)]


def test_the_record_of_a_loss_is_lost_itself(tmp_path: Path) -> None:
    """Both losses are told anew."""
    ledger = recovered(cut(ledger_of(tmp_path / "l", batch(0, 5)), 3))
    append(ledger, batch(9, 3))
    recovered(cut(ledger, 2))
    assert spans(ledger) == [(3, 4, 5), (4, 3, 7)]
    assert len(audit(ledger).findings) == 2


@pytest.mark.parametrize(
    ("batches", "kept"), [([IMPORT, import_of([30, 31], "d2")], 7), ([IMPORT], 4)]
)
def test_nothing_but_the_record_of_a_loss_is_lost(
    tmp_path: Path, batches: list[list[Draft]], kept: int
) -> None:
    """It is told anew, as it was, and is no loss by itself; so it heals."""
    ledger = recovered(cut(ledger_of(tmp_path / "l", *batches), kept))
    before = reported(ledger)
    recovered(cut(ledger, kept))
    assert reported(ledger) == before
    append(ledger, *batches)
    assert audit(ledger).findings == ()
    assert [loss.healed for loss in losses(ledger)] == [True]


def test_the_record_of_a_loss_is_lost_behind_an_import(tmp_path: Path) -> None:
    """It is not counted among the records that nobody can bring back."""
    ledger = recovered(cut(ledger_of(tmp_path / "l", IMPORT, import_of([30, 31], "d2")), 7))
    recovered(cut(ledger, 6))
    assert [(body.imports, body.others) for _, body in reported(ledger)] == [
        (("d2",), False),
        (("d1",), False),
    ]
    append(ledger, IMPORT, import_of([30, 31], "d2"))
    assert audit(ledger).findings == ()


def test_one_record_is_called_one(tmp_path: Path) -> None:
    ledger = cut(ledger_of(tmp_path / "l", batch(0, 3)), 2)
    with ledger.writer() as writer:
        (report,) = writer.recovery
    assert f"{NODE}: record 3 was acknowledged and is gone (" in report.message
    (loss,) = losses(ledger)
    assert loss.phrase.startswith(f"record 3 of {NODE} was acknowledged, ")


def test_a_loss_that_was_imported_again(tmp_path: Path) -> None:
    """In place, or by a new run: it is told, and no finding; of one import of two, it is one."""
    ledger = recovered(cut(ledger_of(tmp_path / "l", IMPORT, import_of([30, 31], "d2")), 4))
    assert len(audit(ledger).findings) == 1
    append(ledger, IMPORT[4:])
    assert len(audit(ledger).findings) == 1
    append(ledger, import_of([30, 31], "d2"))
    assert audit(ledger).findings == ()
    (loss,) = losses(ledger)
    assert loss.healed
    assert "nothing of these imports is missing" in loss.phrase
    assert ledger.info(NODE).missing == []
    (ledger.path / MANIFEST).unlink()
    assert ledger.info(NODE).missing == []


def test_records_of_no_import_do_not_come_back(tmp_path: Path) -> None:
    ledger = recovered(cut(ledger_of(tmp_path / "l", IMPORT, batch(20, 2)), 4))
    append(ledger, IMPORT[4:])
    assert [loss.healed for loss in losses(ledger)] == [False]


def test_lost_records_that_are_put_back(tmp_path: Path) -> None:
    """The segment was restored from a copy: nothing is lost any more."""
    ledger = ledger_of(tmp_path / "l", IMPORT, batch(20, 2))
    whole = copy(ledger, tmp_path / "whole")
    head = audit(ledger).nodes[0].head
    recovered(cut(ledger, 4))
    assert losses(ledger)
    segment_paths(ledger)[0].write_bytes(segment_paths(whole)[0].read_bytes())
    assert losses(ledger) == ()
    with ledger.writer() as writer:
        (report,) = writer.recovery
    assert isinstance(report, CountedAnew)
    assert seqs(ledger) == list(range(1, 10))
    assert ledger.manifest().nodes[NODE] == whole.manifest().nodes[NODE]
    assert audit(ledger).findings == ()
    assert audit(ledger).nodes[0].head == head


def test_a_manifest_of_other_records(tmp_path: Path) -> None:
    """Sound records that it was not written for: counted anew, and told."""
    ledger = ledger_of(tmp_path / "l", IMPORT)
    other = ledger_of(tmp_path / "other", import_of(range(40, 46), "d9"))
    segment_paths(ledger)[0].write_bytes(segment_paths(other)[0].read_bytes())
    assert any("another chain" in finding.problem for finding in audit(ledger).findings)
    with ledger.writer() as writer:
        (report,) = writer.recovery
    assert "another chain digest at record 7" in report.message
    assert ledger.manifest().nodes == other.manifest().nodes


def test_snapshots_of_lost_records_go(tmp_path: Path) -> None:
    """They would never be used again, and audit would name them for ever."""
    ledger = ledger_of(tmp_path / "l", batch(0, 5))
    for seq in (2, 4):
        digest = ledger.digest_at(NODE, seq)
        assert digest is not None
        snapshot = Snapshot(seq=seq, ts_ns=1, version="1", chain=digest.hex(), state=b"s")
        ledger.snapshots(NODE).save(snapshot)
    recovered(cut(ledger, 3))
    assert list(ledger.snapshots(NODE).seqs()) == [2]


def test_a_loss_of_a_former_version(tmp_path: Path) -> None:
    """It stood in the manifest only; now a record tells."""
    ledger = ledger_of(tmp_path / "l", batch(0, 2))
    manifest = ledger.manifest()
    manifest.nodes[NODE].losses = [KnownLoss(first_seq=2, last_seq=9, chain="ab" * 32)]
    save_manifest(ledger.path, manifest)
    recovered(ledger)
    ((seq, body),) = reported(ledger)
    assert (seq, body.first_seq, body.last_seq, body.others) == (3, 2, 9, True)
    assert (body.first_ts_ns, body.last_ts_ns) == (None, None)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [*LOSSES, None])
def test_a_crash_at_every_call_while_a_loss_is_told(tmp_path: Path, loss: Loss | None) -> None:
    """Or an error, without one: one record tells of it in the end, never none and never two."""
    cut_off = cut(ledger_of(tmp_path / "cut", IMPORT), 4, torn=30)
    for at in range(1, 200):
        place = tmp_path / f"{at}"
        place.mkdir()
        ledger = copy(cut_off, place / "l")
        fault = Fault(at=at, crash=loss is not None, error=errno.ENOSPC, short=True)
        with suppress(LedgerUnavailableError, PowerCut), FaultyDisk(place, fault) as disk:
            append(ledger, [draft(20)])
        disk.lose_power(loss or "nothing")
        with FaultyDisk(place):
            append(ledger, [draft(21)])
            assert spans(ledger) == [(5, 5, 7)]
            assert [one.is_loss for one in audit(ledger).findings] == [True]
        if not disk.struck:
            break
    assert at > 20
