"""Every point of a session at which the disk can fail or the power go, one by one."""

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kubeledger.ingest.api import import_sources
from kubeledger.ledger.audit import audit
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import IMPORT_KINDS
from kubeledger.ledger.recovery import RecoveryReport
from kubeledger.ledger.snapshots import Snapshot
from kubeledger.ledger.writer import WriterOptions
from kubeledger.model.errors import LedgerUnavailableError
from tests.faults import LOSSES, Fault, FaultyDisk, Loss, PowerCut
from tests.ledger.making import NODE, batch, draft, ledger_of, sizes

ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES)
SMALL = WriterOptions(segment_bytes=1500, level=1)
"""Segments of a few records: a session leaves and seals several."""


def acknowledged_by(path: Path) -> int:
    """Create, append over several segments, snapshot, append on; how many were acknowledged.

    The counting does not see what raised: that is the caller's.
    """
    done = 0
    with suppress(LedgerUnavailableError, PowerCut):
        ledger = Ledger.open_or_create(path, SMALL)
        with ledger.writer() as writer:
            for start in range(writer.next_seq(NODE) - 1, 8, 2):
                done = writer.append(NODE, batch(start, 2))[-1]
        digest = ledger.digest_at(NODE, 4)
        assert digest is not None
        state = Snapshot(seq=4, ts_ns=3, version="1", chain=digest.hex(), state=b"as of 4")
        ledger.snapshots(NODE).save(state)
        with ledger.writer() as writer:
            rest = (batch(start, 1) for start in range(writer.next_seq(NODE) - 1, 12))
            for seqs in writer.append_batches(NODE, rest):
                done = seqs[-1]
    return done


def check(path: Path, acknowledged: int) -> None:
    """All acknowledged is there, read and written as if nothing had been."""
    ledger = Ledger.open_or_create(path, SMALL)
    if NODE in ledger.nodes():
        before = sizes(ledger)
        assert before[:acknowledged] == list(range(acknowledged))
        assert before == list(range(len(before)))
    assert audit(ledger).findings == ()
    with ledger.writer() as writer:
        following = writer.next_seq(NODE)
        assert acknowledged < following <= 13
        assert all(isinstance(one, RecoveryReport) for one in writer.recovery)
        assert writer.info(NODE).losses == []
        assert writer.append(NODE, batch(following - 1, 1)) == [following]
    assert sizes(ledger) == list(range(following))
    report = audit(ledger)
    assert report.findings == ()
    assert report.nodes[0].last_seq == following
    store = ledger.snapshots(NODE)
    found = store.newest("1", ledger.info(NODE).runs, lambda seq: ledger.digest_at(NODE, seq))
    assert found is None or found.state == b"as of 4"
    assert store.notes == []


def sweep(
    tmp_path: Path,
    fault_at: Callable[[int], Fault],
    loss: Loss = "nothing",
    points: range = range(1, 1000),
) -> int:
    """One session for each point until the fault comes no more; how many points there were."""
    for at in points:
        path = tmp_path / f"{at}" / "l"
        path.parent.mkdir()
        with FaultyDisk(path.parent, fault_at(at)) as disk:
            acknowledged = acknowledged_by(path)
        disk.lose_power(loss)
        with FaultyDisk(path.parent):  # one without a fault, and quick
            check(path, acknowledged)
        if not disk.struck:
            assert acknowledged == 12
            return at
    raise AssertionError("the fault never stopped coming")


@pytest.mark.slow
def test_power_goes_at_every_call(tmp_path: Path) -> None:
    """And the disk forgets all that was not synced: every point there is."""
    assert sweep(tmp_path, lambda at: Fault(at=at, crash=True), "strict") > 80


@pytest.mark.slow
@pytest.mark.parametrize("index", range(4), ids=[loss for loss in LOSSES if loss != "strict"])
def test_power_goes_and_some_of_it_stays(tmp_path: Path, index: int) -> None:
    loss = [loss for loss in LOSSES if loss != "strict"][index]
    assert sweep(tmp_path, lambda at: Fault(at=at, crash=True), loss, every_fourth(index)) > 80


@pytest.mark.slow
@pytest.mark.parametrize("index", range(4), ids=["once", "lasting", "once-short", "lasting-short"])
def test_every_call_fails(tmp_path: Path, index: int) -> None:
    """With each error in turn; a fourth of the points each, together all."""

    def fault_at(at: int) -> Fault:
        error = ERRORS[at // 4 % len(ERRORS)]
        return Fault(at=at, error=error, lasting=index % 2 == 1, short=index >= 2)

    assert sweep(tmp_path, fault_at, points=every_fourth(index)) > 80


def every_fourth(index: int) -> range:
    """Points of one of four sweeps that share the work."""
    return range(1 + index, 1000, 4)


@pytest.mark.nightly
@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_call_fails_with_every_error(
    tmp_path: Path, error: int, lasting: bool, loss: Loss
) -> None:
    """And the power goes when the program has ended, error or not."""

    def fault_at(at: int) -> Fault:
        return Fault(at=at, error=error, lasting=lasting, short=True)

    assert sweep(tmp_path, fault_at, loss) > 80


KLOG = "".join(
    f'I1121 03:00:{second:02d}.000000    1234 kubelet.go:2098] "SyncLoop (PLEG): event for pod" '
    f'pod="default/web-{second}" event=&{{ID:0b0e6f3c-6f1e-4d0c-8c1d-{second:012d} '
    f"Type:ContainerStarted Data:{second:064x}}}\n"
    for second in range(20)
)


@pytest.mark.slow
@pytest.mark.parametrize("crash", [False, True], ids=["fails", "power"])
def test_an_import_is_taken_up_again(tmp_path: Path, crash: bool) -> None:
    """After any failure, the same import gives the same records as one without."""
    log = tmp_path / "kubelet.log"
    log.write_text(f"Log file created at: 2026/11/21 03:00:00\n{KLOG}")
    whole = Ledger.create(tmp_path / "whole")
    import_sources([str(log)], whole)
    expected = bodies(whole)
    assert len(expected) > 20
    for at in range(1 + crash, 200, 2):  # half of the points each way
        path = tmp_path / f"{at}" / "l"
        path.parent.mkdir()
        with (
            suppress(LedgerUnavailableError, PowerCut),
            FaultyDisk(path.parent, Fault(at=at, crash=crash, error=ERRORS[at % 4])) as disk,
        ):
            import_sources([str(log)], Ledger.open_or_create(path))
        disk.lose_power("strict" if crash else "nothing")
        with FaultyDisk(path.parent):
            ledger = Ledger.open_or_create(path)
            import_sources([str(log)], ledger)
            assert audit(ledger).findings == ()
            assert bodies(ledger) == expected
            assert import_sources([str(log)], ledger).added == 0
        if not disk.struck:
            break
    assert at > 15


def bodies(ledger: Ledger) -> list[str]:
    """What the records but those of the imports themselves say, in the order read."""
    facts = (record for record in ledger.records() if record.kind not in IMPORT_KINDS)
    return [repr(record.body) for record in facts]


def test_the_disk_forgets_what_it_was_not_told_to_keep(tmp_path: Path) -> None:
    """The tool itself: without a sync, content and names are gone; with one, they stay."""
    import os

    with FaultyDisk(tmp_path) as disk:
        for name, synced in (("kept", True), ("lost", False)):
            descriptor = os.open(tmp_path / name, os.O_WRONLY | os.O_CREAT)
            os.write(descriptor, b"ab")
            if synced:
                os.fsync(descriptor)
                directory = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
                os.fsync(directory)
                os.close(directory)
            os.write(descriptor, b"cd")
            os.close(descriptor)
    disk.lose_power("half")
    assert ((tmp_path / "kept").read_bytes(), (tmp_path / "lost").read_bytes()) == (b"abc", b"ab")
    disk.lose_power("strict")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").read_bytes() == b"ab"


def test_a_writer_without_sync_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep can fail: a ledger that does not sync its segments loses what it acknowledged."""
    monkeypatch.setattr("kubeledger.ledger.tail.os.fsync", lambda _descriptor: None)
    ledger = ledger_of(tmp_path / "l", [draft(0)])
    with FaultyDisk(tmp_path) as disk:
        monkeypatch.setattr("os.fsync", lambda _descriptor: None)
        with ledger.writer() as writer:
            writer.append(NODE, batch(1, 3))
    disk.lose_power("strict")
    assert sizes(ledger) == [0]
