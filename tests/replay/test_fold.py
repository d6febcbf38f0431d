"""Folding: total, deterministic, and the same through a snapshot."""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeledger.ledger.audit import audit
from kubeledger.ledger.audit_walk import Finding
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.tail import Draft
from kubeledger.model.record import Record
from kubeledger.model.wire.codec import GENESIS, decode_line, encode_line
from kubeledger.replay import refresh_snapshots
from kubeledger.replay.instants import STATE_VERSION, decode_state, encode_state, fold
from kubeledger.replay.node.state import PARTS, NodeState, canonical_json
from kubeledger.replay.proof import SnapshotProof
from tests.analyze.sql.fixture_ledger import whole_story
from tests.replay.strategies import histories, record

ROOT = Path(__file__).parents[2]


@given(history=histories(), data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_history_folds(history: list[Record], data: st.DataObject) -> None:
    """No record in any order is too much for a reducer.

    None leaves a trace of chance; a state that is stored anywhere and read back goes on as the
    one before; and all values are of the declared types.
    """
    full = fold(history)
    assert full.seq == len(history)
    assert canonical_json(fold(history)) == canonical_json(full)
    cut = data.draw(st.integers(0, len(history)))
    restored = decode_state(encode_state(fold(history[:cut])))
    assert restored is not None
    stored = encode_state(full)
    assert encode_state(fold(history[cut:], restored)) == stored
    assert canonical_json(restored) == canonical_json(full)
    assert decode_state(stored) == full
    _subsystems_hold_only_pods_that_are_on_the_node(full)


def _subsystems_hold_only_pods_that_are_on_the_node(state: NodeState) -> None:
    """Affinities and workers belong to pods that are there and have not ended."""
    pods = state.lifecycle.pods
    for held in (state.topologymanager.pods, state.prober.pods):
        for key in held:
            assert key in pods
            assert not pods[key].ended
    assert set(state.preemption.victims) <= set(pods)
    assert state.lifecycle.without_uid == sum(pod.uid is None for pod in pods.values())
    assert not set(state.lifecycle.gone) & set(pods)
    assert set(state.lifecycle.names.values()) <= set(pods)


def test_a_state_before_the_first_record_is_empty() -> None:
    state = fold([])
    assert state == NodeState()
    assert state.ts_ns is None


@pytest.mark.parametrize("part", list(PARTS))
def test_each_part_can_be_had_alone(part: str) -> None:
    """A part comes with the node and its place in the history, and nothing else."""
    reported = msgspec.json.decode(canonical_json(fold([]), [part]))
    assert set(reported) - {"node", "seq", "ts_ns"} == {part}


_PROGRAM = """
import sys
from kubeledger.replay.node.state import canonical_json
from kubeledger.replay.instants import encode_state
from kubeledger.replay.instants import fold
from kubeledger.model.wire.codec import decode_line

state = fold(decode_line(line) for line in open(sys.argv[1], "rb"))
sys.stdout.buffer.write(canonical_json(state) + encode_state(state))
"""


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A long random history, the same in every run, as lines of a ledger."""
    facts: list[Record] = []

    @settings(max_examples=100)
    @given(history=histories())
    def collect(history: list[Record]) -> None:
        facts.extend(history)

    collect()
    digest, encoded = GENESIS, []
    for seq, fact in enumerate(facts, 1):
        line, digest = encode_line(record(seq, fact.body, fact.ts_ns), digest)
        encoded.append(line)
    assert len(encoded) > 300
    path = tmp_path_factory.mktemp("history") / "records.jsonl"
    path.write_bytes(b"".join(encoded))
    return path


def _replayed(path: Path, hash_seed: str, zone: str) -> bytes:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": zone, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", _PROGRAM, str(path)]
    return subprocess.run(command, env=environment, check=True, capture_output=True).stdout


def test_other_processes_give_the_same_bytes(lines: Path) -> None:
    """Neither the hash seed nor the time zone of a process shows in the state."""
    outputs = {
        _replayed(lines, seed, zone)
        for seed, zone in (("1", "UTC"), ("2", "Pacific/Auckland"), ("3", "America/St_Johns"))
    }
    here = fold(decode_line(line) for line in lines.read_bytes().splitlines(keepends=True))
    assert outputs == {canonical_json(here) + encode_state(here)}


# Snapshots that the records do not give are named, whatever their CRC says.


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
