"""Snapshots that the records do not give are named, whatever their CRC says."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from kubeledger.ledger.audit import audit
from kubeledger.ledger.audit_walk import Finding
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.tail import Draft
from kubeledger.replay import refresh_snapshots
from kubeledger.replay.instants import STATE_VERSION
from kubeledger.replay.proof import SnapshotProof
from tests.analyze.sql.fixture_ledger import whole_story


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A story with snapshots, some of them taken by another process."""
    opened = Ledger.create(tmp_path / "ledger")
    drafts = [Draft(r.ts_ns, r.body, r.evidence) for r in whole_story()]
    for part in (drafts[:20], drafts[20:]):
        with opened.writer() as writer:
            writer.append("node-a", part)
        refresh_snapshots(opened, "node-a", 7)
    return opened


def _proved(ledger: Ledger, shown: Iterable[int] = ()) -> list[Finding]:
    """What is found wrong where somebody else reads these records, too."""
    proof = SnapshotProof(ledger, "node-a")
    for seq in shown:
        record = ledger.record("node-a", seq)
        assert record is not None
        proof.take(record)
    return proof.findings()


def test_true_snapshots(ledger: Ledger) -> None:
    store = ledger.snapshots("node-a")
    assert len(store.seqs()) > 5
    assert _proved(ledger) == []
    store.drop()
    assert _proved(ledger) == []


@pytest.mark.parametrize("field", ["state", "ts_ns"])
def test_a_forged_snapshot_is_named(ledger: Ledger, field: str) -> None:
    store = ledger.snapshots("node-a")
    forged, other = store.seqs()[1:3]
    true, later = store.load(forged, STATE_VERSION), store.load(other, STATE_VERSION)
    assert true is not None
    assert later is not None
    if field == "state":
        store.save(msgspec.structs.replace(true, state=later.state))
    else:
        store.save(msgspec.structs.replace(true, ts_ns=true.ts_ns - 1))
    assert audit(ledger).findings == ()
    (finding,) = _proved(ledger)
    last_seq = ledger.info("node-a").last_seq
    for shown in (range(1, last_seq + 1), range(1, forged), (1, 3, 2, 3, 2, 4), (forged,)):
        assert _proved(ledger, shown) == [finding]
    assert (finding.file, finding.seq) == (str(store.path(forged)), forged)
    assert "remove this snapshot" in finding.problem


def test_a_snapshot_of_another_form_is_not_used(ledger: Ledger) -> None:
    store = ledger.snapshots("node-a")
    snapshot = store.load(store.seqs()[0], STATE_VERSION)
    assert snapshot is not None
    store.save(msgspec.structs.replace(snapshot, version="old", state=b"whatever"))
    assert _proved(ledger) == []
