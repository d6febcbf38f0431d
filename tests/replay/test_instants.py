"""State at an instant: of a real ledger, with and without snapshots, imports in any order."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import is_superseded
from kubeledger.ledger.tail import Draft
from kubeledger.model.bodies.ledger import ImportCompleted, ImportStarted
from kubeledger.model.bodies.lifecycle import PodAdmitted, PodRejected
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.record import Body
from kubeledger.replay import SnapshottingFolder, choose_node, fold, refresh_snapshots, state_at
from kubeledger.replay.instants import STATE_VERSION, nearest_snapshot
from kubeledger.replay.node.state import NodeState, canonical_json
from tests.replay.strategies import bodies

NODE = "node-t"


def admitted(uid: str) -> PodAdmitted:
    return PodAdmitted(namespace="ns", pod=uid, pod_uid=uid)


def imported(digest: str, *facts: tuple[int, Body]) -> list[Draft]:
    first, last = facts[0][0], facts[-1][0]
    start = ImportStarted(digest=digest, kubeledger_version="0", sources=())
    end = ImportCompleted(digest=digest, accounts=())
    drafts = [(first, start), *facts, (last, end)]
    return [Draft(ts_ns, body) for ts_ns, body in drafts]


def ledger_of(path: Path, *batches: list[Draft], node: str = NODE) -> Ledger:
    ledger = Ledger.open_or_create(path)
    with ledger.writer() as writer:
        for batch in batches:
            writer.append(node, batch)
    return ledger


def pods(ledger: Ledger, *, ts_ns: int | None = None, seq: int | None = None) -> set[str]:
    state = state_at(ledger, NODE, ts_ns=ts_ns, seq=seq)
    without = state_at(ledger, NODE, ts_ns=ts_ns, seq=seq, snapshots=False)
    assert canonical_json(state) == canonical_json(without)
    return set(state.lifecycle.pods)


def of_one_import(path: Path, count: int = 9) -> Ledger:
    """Pods u1 to u9, admitted at times 10 to 90; their records are 2 to 10."""
    return ledger_of(
        path, imported("a", *((n * 10, admitted(f"u{n}")) for n in range(1, count + 1)))
    )


def nearest(
    ledger: Ledger, *, ts_ns: int | None = None, seq: int | None = None
) -> NodeState | None:
    with ledger.reading(NODE) as look:
        store = ledger.snapshots(NODE)
        return nearest_snapshot(look, store, look.info(), ts_ns=ts_ns, seq=seq)


@pytest.mark.parametrize("every", [None, 1, 3, 100])
@pytest.mark.parametrize(
    ("ts_ns", "newest"), [(9, 0), (10, 1), (19, 1), (20, 2), (90, 9), (10**18, 9), (None, 9)]
)
def test_at_a_time(tmp_path: Path, every: int | None, ts_ns: int | None, newest: int) -> None:
    ledger = of_one_import(tmp_path / "ledger")
    if every is not None:
        refresh_snapshots(ledger, NODE, every)
    assert pods(ledger, ts_ns=ts_ns) == {f"u{n}" for n in range(1, newest + 1)}


@pytest.mark.parametrize("every", [None, 1, 3])
@pytest.mark.parametrize(("seq", "newest"), [(0, 0), (1, 0), (2, 1), (10, 9), (11, 9)])
def test_after_a_record(tmp_path: Path, every: int | None, seq: int, newest: int) -> None:
    """0 is before the first."""
    ledger = of_one_import(tmp_path / "ledger")
    if every is not None:
        refresh_snapshots(ledger, NODE, every)
    assert pods(ledger, seq=seq) == {f"u{n}" for n in range(1, newest + 1)}
    assert state_at(ledger, NODE, seq=seq).seq == seq


def test_an_import_of_earlier_records_comes_first(tmp_path: Path) -> None:
    """Snapshots of before it are not used any more, and none is made that could not be."""
    early = imported("b", (5, admitted("u1")), (15, admitted("early")))
    late = imported("a", (10, PodRejected(namespace="ns", pod="u1", pod_uid="u1", reason="r",
                                          message="m")), (20, admitted("late")))  # fmt: skip
    ledger = ledger_of(tmp_path / "ledger", late)
    refresh_snapshots(ledger, NODE, 1)
    ledger = ledger_of(tmp_path / "ledger", early)
    folder = SnapshottingFolder(ledger, NODE, 1)
    stored = set(ledger.snapshots(NODE).seqs())
    folder.apply(ledger.records(NODE, folder.state.seq))
    folder.finish()
    assert {s for s in ledger.snapshots(NODE).seqs() if s > 4} == {s for s in stored if s > 4}
    assert pods(ledger, ts_ns=5) == {"u1"}
    assert state_at(ledger, NODE, ts_ns=9).lifecycle.pods["u1"].admitted
    assert state_at(ledger, NODE, ts_ns=10).lifecycle.pods["u1"].admitted is False
    assert pods(ledger, ts_ns=15) == {"u1", "early"}
    assert pods(ledger) == {"u1", "early", "late"}
    assert pods(ledger, seq=2) == {"u1"}  # record 2 comes after 5 and 6 in time


@given(
    imports=st.lists(
        st.lists(st.tuples(st.integers(0, 50), bodies()), min_size=1, max_size=8),
        min_size=1,
        max_size=4,
    ),
    every=st.integers(1, 6),
    ts_ns=st.integers(0, 60),
)
@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_snapshots_never_change_the_answer(
    tmp_path_factory: pytest.TempPathFactory,
    imports: list[list[tuple[int, Body]]],
    every: int,
    ts_ns: int,
) -> None:
    """Whatever was imported in whatever order, and taken snapshots of in between."""
    path = tmp_path_factory.mktemp("ledger") / "ledger"
    for number, facts in enumerate(imports):
        in_time = sorted(facts, key=lambda fact: fact[0])
        ledger = ledger_of(path, imported(str(number), *in_time))
        refresh_snapshots(ledger, NODE, every)
    assert canonical_json(state_at(ledger)) == canonical_json(fold(ledger.replay(NODE)))
    at = fold(ledger.replay(NODE, upto_ts_ns=ts_ns))
    at.node = NODE
    assert canonical_json(state_at(ledger, ts_ns=ts_ns)) == canonical_json(at)
    last = ledger.info(NODE).last_seq
    superseded = ledger.info(NODE).superseded
    for seq in (n for n in (1, last // 2, last) if not is_superseded(n, superseded)):
        with_, without = (
            state_at(ledger, seq=seq, snapshots=True),
            state_at(ledger, seq=seq, snapshots=False),
        )
        assert canonical_json(with_) == canonical_json(without)


# Snapshots


def test_snapshots_are_taken_every_so_often_and_at_the_end(tmp_path: Path) -> None:
    ledger = of_one_import(tmp_path / "ledger")
    refresh_snapshots(ledger, NODE, 4)
    assert ledger.snapshots(NODE).seqs() == [4, 8, 11]
    used = [nearest(ledger, ts_ns=ts_ns) for ts_ns in (29, 30, 75, 90)]
    assert [state.seq if state else None for state in used] == [None, 4, 8, 11]
    seqs = [nearest(ledger, seq=seq) for seq in (3, 4, 9)]
    assert [state.seq if state else None for state in seqs] == [None, 4, 8]


def test_a_folder_goes_on_behind_the_newest_snapshot(tmp_path: Path) -> None:
    """What it knows already it passes over; it need not wait for the end."""
    ledger = of_one_import(tmp_path / "ledger", 3)
    refresh_snapshots(ledger, NODE)
    ledger = ledger_of(tmp_path / "ledger", imported("b", (100, admitted("v"))))
    folder = SnapshottingFolder(ledger, NODE, every=2)
    assert folder.state.seq == 5
    folder.apply(ledger.records(NODE))
    assert ledger.snapshots(NODE).seqs() == [5, 7]
    folder.finish()
    folder.finish()
    assert ledger.snapshots(NODE).seqs() == [5, 7, 8]
    assert set(folder.state.lifecycle.pods) == {"u1", "u2", "u3", "v"}


def test_a_folder_may_begin_before_the_first_record(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger")
    folder = SnapshottingFolder(ledger, NODE, every=2)
    ledger_of(tmp_path / "ledger", [Draft(n, admitted(f"u{n}")) for n in (1, 2, 3)])
    folder.apply(ledger.records(NODE))
    folder.finish()
    assert ledger.snapshots(NODE).seqs() == [2, 3]
    assert pods(ledger) == {"u1", "u2", "u3"}


@pytest.mark.parametrize("harm", ["version", "bytes", "state", "seq"])
def test_a_snapshot_that_cannot_be_used_is_passed_over(tmp_path: Path, harm: str) -> None:
    ledger = of_one_import(tmp_path / "ledger")
    refresh_snapshots(ledger, NODE)
    store, info = ledger.snapshots(NODE), ledger.info(NODE)
    snapshot = store.newest(STATE_VERSION, info.runs, lambda seq: ledger.digest_at(NODE, seq))
    assert snapshot is not None
    harms: dict[str, dict[str, str | bytes]] = {
        "version": {"version": "node-state-0"},
        "state": {"state": b'{"node":7}'},
        "seq": {"state": snapshot.state.replace(b'"seq":11', b'"seq":10')},
        "bytes": {},
    }
    path = store.save(msgspec.structs.replace(snapshot, **harms[harm]))
    if harm == "bytes":
        path.write_bytes(path.read_bytes()[:-20])
    assert nearest(ledger) is None
    assert pods(ledger) == {f"u{n}" for n in range(1, 10)}


# Questions


def test_the_only_node_need_not_be_named(tmp_path: Path) -> None:
    """Where there are several, one must be; where there is none, there is no state."""
    ledger = Ledger.create(tmp_path / "ledger")
    with pytest.raises(BadQuestionError, match="no records yet"):
        state_at(ledger)
    of_one_import(tmp_path / "ledger")
    assert state_at(ledger).node == NODE
    ledger_of(tmp_path / "ledger", imported("a", (1, admitted("x"))), node="node-u")
    with pytest.raises(BadQuestionError, match="2 nodes: node-t, node-u"):
        state_at(ledger)
    assert choose_node(ledger, "node-u") == "node-u"
    with pytest.raises(BadQuestionError, match="no node 'node-v'") as caught:
        state_at(ledger, "node-v")
    assert "node-t, node-u" in caught.value.advice


@pytest.mark.parametrize("seq", [-1, 12])
def test_a_record_that_is_not_there(tmp_path: Path, seq: int) -> None:
    with pytest.raises(BadQuestionError, match=f"no record {seq}") as caught:
        state_at(of_one_import(tmp_path / "ledger"), seq=seq)
    assert "1 to 11" in caught.value.advice


def test_time_and_record_are_two_questions(tmp_path: Path) -> None:
    with pytest.raises(BadQuestionError, match="cannot both"):
        state_at(of_one_import(tmp_path / "ledger"), ts_ns=1, seq=1)
