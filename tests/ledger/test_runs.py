from collections.abc import Iterator
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeledger.ledger.audit import audit
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import Run
from kubeledger.ledger.reading import replay_runs, replays_in_seq_order
from kubeledger.model.record import Record
from tests.ledger.making import NODE, append, batch, deleted, import_of, ledger_of


def order(ledger: Ledger, upto_ts_ns: int | None = None) -> list[int]:
    return [record.seq for record in ledger.replay(NODE, upto_ts_ns=upto_ts_ns)]


def test_one_import_is_replayed_as_it_is(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path / "l", import_of([1, 2, 3], "d"))
    assert order(ledger) == [1, 2, 3, 4, 5]


def test_an_older_import_comes_first(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path / "l", import_of([50, 60], "d1"), import_of([10, 20], "d2"))
    assert order(ledger) == [5, 6, 7, 8, 1, 2, 3, 4]


def test_overlapping_imports_interleave(tmp_path: Path) -> None:
    """By time; at one instant, by seq."""
    ledger = ledger_of(tmp_path / "l", import_of([10, 30, 50], "d1"), import_of([20, 30, 40], "d2"))
    #        seq  1  2  3  4  5    6  7  8  9  10
    #        ts  10 10 30 50 50   20 20 30 40 40
    assert order(ledger) == [1, 2, 6, 7, 3, 8, 9, 10, 4, 5]


def test_a_clock_that_steps_back_keeps_the_order_of_its_log(tmp_path: Path) -> None:
    """Also against another import: what follows the step belongs behind it."""
    ledger = ledger_of(tmp_path / "l", import_of([10, 30, 12, 31], "d1"), import_of([20], "d2"))
    #        seq  1  2  3  4  5  6    7  8  9
    #        ts  10 10 30 12 31 31   20 20 20
    #        key 10 10 30 30 31 31
    assert order(ledger) == [1, 2, 7, 8, 9, 3, 4, 5, 6]


def test_up_to_an_instant(tmp_path: Path) -> None:
    """Inclusive; by the latest time so far, so nothing behind a step back sneaks in."""
    ledger = ledger_of(tmp_path / "l", import_of([10, 30, 12, 31], "d1"), import_of([20], "d2"))
    assert order(ledger, 9) == []
    assert order(ledger, 10) == [1, 2]
    assert order(ledger, 29) == [1, 2, 7, 8, 9]
    assert order(ledger, 30) == [1, 2, 7, 8, 9, 3, 4]
    assert order(ledger, 10**18) == order(ledger)


def test_records_before_the_first_import_are_a_run(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path / "l", batch(100, 2), import_of([5], "d"))
    assert order(ledger) == [3, 4, 5, 1, 2]


def test_runs_are_counted_with_and_without_a_manifest(tmp_path: Path) -> None:
    """Identity, span, completeness; also while a writer is at work."""
    ledger = ledger_of(tmp_path / "l", import_of([5, 9, 7], "d1"), segment_bytes=900)
    append(ledger, import_of([2, 3], "d2", complete=False)[:2])
    expected = [
        Run(
            first_seq=1, last_seq=5, first_ts_ns=5, max_ts_ns=9, digest="d1",
            complete=True, end_seq=5, reopened_seq=0,
        ),
        Run(first_seq=6, last_seq=7, first_ts_ns=2, max_ts_ns=2, digest="d2", reopened_seq=0),
    ]  # fmt: skip
    assert ledger.info(NODE).runs == ledger.manifest().nodes[NODE].runs == expected
    with Ledger.open(ledger.path).writer() as writer:
        expected[1].reopened_seq = 7
        writer.append(NODE, batch(40, 3))
        assert ledger.manifest().nodes[NODE].runs == expected
        assert ledger.info(NODE).runs[1].max_ts_ns == 42
        assert ledger.info(NODE) == writer.info(NODE)
    assert audit(ledger).findings == ()


def run_of(first_seq: int, keys: list[int]) -> tuple[Run, list[Record]]:
    """A run of records with these times."""
    records = [
        Record(
            node=NODE, seq=seq, ts_ns=ts_ns, role="decision", kind="images.ImageDeleted", v=1,
            cause=None, evidence=(), body=deleted(0),
        )
        for seq, ts_ns in enumerate(keys, first_seq)
    ]  # fmt: skip
    run = Run(
        first_seq=first_seq,
        last_seq=first_seq + len(keys) - 1,
        first_ts_ns=keys[0],
        max_ts_ns=max(keys),
    )
    return run, records


TIMES = st.lists(st.integers(0, 12), min_size=1, max_size=5)


@given(st.lists(TIMES, min_size=1, max_size=4), st.none() | st.integers(0, 12))
@settings(max_examples=300, deadline=None)
def test_any_runs_come_in_the_order_of_their_keys(
    times: list[list[int]], upto_ts_ns: int | None
) -> None:
    """Against a plain sort; and "in the order of seq" is true exactly where it is so."""
    runs: list[Run] = []
    records: list[Record] = []
    keys: dict[int, tuple[int, int]] = {}
    for one in times:
        run, added = run_of(len(records) + 1, one)
        runs.append(run)
        records += added
        for index, record in enumerate(added):
            keys[record.seq] = (max(one[: index + 1]), record.seq)

    def after(seq: int) -> Iterator[Record]:
        return iter(records[seq:])

    expected = sorted(keys, key=lambda seq: keys[seq])
    wanted = [seq for seq in expected if upto_ts_ns is None or keys[seq][0] <= upto_ts_ns]
    assert [record.seq for record in replay_runs(runs, after, upto_ts_ns)] == wanted
    for upto_seq in range(1, len(records) + 1):
        latest = max(record.ts_ns for record in records[:upto_seq])
        if replays_in_seq_order(runs, upto_seq, latest):
            assert expected[:upto_seq] == list(range(1, upto_seq + 1))


def test_when_a_replay_begins_in_the_order_of_seq() -> None:
    """True for what a snapshot may hold, false as soon as an older record comes later."""
    runs = [run_of(1, [10, 20])[0], run_of(3, [20, 30])[0]]
    assert replays_in_seq_order(runs, 2, 20)
    assert replays_in_seq_order(runs, 4, 30)
    late = [*runs, run_of(5, [15])[0]]
    assert replays_in_seq_order(late, 1, 10)
    assert not replays_in_seq_order(late, 2, 20)
    assert not replays_in_seq_order(late, 4, 30)


def test_streams_are_open_only_while_under_way() -> None:
    """A thousand logs that each overlap the next: two at a time, not a thousand."""
    runs: list[Run] = []
    records: list[Record] = []
    for number in range(1000):
        run, added = run_of(len(records) + 1, [number * 10, number * 10 + 14])
        runs.append(run)
        records += added
    open_now: set[int] = set()
    most = 0

    def after(seq: int) -> Iterator[Record]:
        nonlocal most
        open_now.add(seq)
        most = max(most, len(open_now))
        try:
            yield from records[seq:]
        finally:
            open_now.remove(seq)

    replayed = list(replay_runs(runs, after))
    assert [record.ts_ns for record in replayed] == sorted(record.ts_ns for record in records)
    assert most == 2
    assert open_now == set()
