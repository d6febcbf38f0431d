"""Facts and log entries in the order of time, whatever the order in which they came."""

from collections.abc import Callable
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.ingest.dispatch import Sequencer
from kubeledger.ingest.klog.account import ClockStep, LogEntry, LogOutput, NewProcess, WrongStamp
from kubeledger.ingest.klog.reorder import in_order
from kubeledger.ingest.klog.stamps import Doubt
from kubeledger.ingest.sources.items import Fact, LogLine
from kubeledger.kubelet.lifecycle.disputes import LINES_DISAGREE, LINES_MIXED, dispute_of
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.bodies.node import ClockStepped
from kubeledger.model.units import NS_PER_S


def fact(ts_ns: int, *, late: bool = False) -> Fact:
    return Fact(ts_ns, ClockStepped(from_ts_ns=0, to_ts_ns=0), (), late=late)


def line(ts_ns: int, number: int) -> LogLine:
    return LogLine(
        ts_ns=ts_ns,
        severity="I",
        pid=1,
        file="a.go",
        caller_line=1,
        message="m",
        values=None,
        source="kubelet.log",
        line=number,
        offset=0,
        text="m",
    )


def entries(*times: int) -> list[LogOutput]:
    return [LogEntry(line(ts_ns, number), ()) for number, ts_ns in enumerate(times)]


def numbers(outputs: list[LogOutput]) -> list[tuple[int, int]]:
    """Time of release and line of each."""
    found = in_order(outputs, 0)
    return [(key, out.line.line) for key, out in found if not isinstance(out, Fact)]


def waiting(ts_ns: int | None) -> Callable[[], int | None]:
    """An assembler that holds something."""
    return lambda: ts_ns


def test_swapped_neighbours() -> None:
    assert numbers(entries(1, 3, 2, 4)) == [(1, 0), (2, 2), (3, 1), (4, 3)]
    far = [n * 7 * NS_PER_S for n in (1, 3, 2, 4)]
    assert [n for _, n in numbers(entries(*far))] == [0, 2, 1, 3]
    assert [n for _, n in numbers(entries(5, 5, 5))] == [0, 1, 2]


_READ, _CALM = ("Eviction manager:", None), ("Eviction manager: no resources are starved", None)
_BEGUN = "Eviction manager: synchronize housekeeping", None
_FAILED = "Probe failed", {"pod": "d/a", "probeType": "Liveness"}
_CHANGED = "SyncLoop (probe)", {"pod": "d/a", "probe": "liveness"}
_READY = "SyncLoop (probe)", {"pod": "d/a", "probe": "readiness"}
Said = tuple[str, dict[str, str] | None]


@pytest.mark.parametrize(
    ("said", "unit_ns", "rounds", "turned"),
    [
        ([_CALM, _READ, _BEGUN], 1_000_000, 4, 1),
        ([_CALM, _READ, _BEGUN], NS_PER_S, 3, 1),
        ([_CALM, _READ, _BEGUN], 1_000_000, 2, 0),  # two goroutines may do so at once
        ([_CALM, _READ, _BEGUN], 1_000, 4, 1),  # stamps that were made unequal again
        ([_CHANGED, _FAILED], 1_000, 4, 0),  # two workers
        ([_BEGUN, _READ, _CALM], 1_000_000, 4, 0),
        ([_CALM, _BEGUN, _READ], 1_000_000, 4, 0),  # another round, at once
        ([_CHANGED, _FAILED], 1_000_000, 4, 1),
        ([_CHANGED, _FAILED], NS_PER_S, 4, 0),  # it may fail again
        ([_READY, _FAILED], 1_000_000, 4, 0),
    ],
)
def test_lines_of_one_stamp_that_were_turned(
    said: list[Said], unit_ns: int, rounds: int, turned: int
) -> None:
    """Those that one goroutine logs one after the other are below each other."""
    instants = [10 * NS_PER_S * n + unit_ns for n in range(1, rounds + 1) for _ in said]
    outputs = entries(*instants)
    for output, (message, values) in zip(outputs, said * rounds, strict=True):
        assert isinstance(output, LogEntry)
        output.line.message, output.line.values = message, values
    facts = [out.body for _, out in in_order(outputs, 0) if isinstance(out, Fact)]
    found = [body.finding for body in facts if isinstance(body, FindingReported)]
    assert found == [LINES_MIXED] * turned


@pytest.mark.parametrize(
    ("pids", "mixed"), [("121212", 1), ("12121", 1), ("1212", 0), ("111222333", 0), ("1112", 0)]
)
def test_a_process_that_was_over_logs_no_more(pids: str, mixed: int) -> None:
    """Each log begins with its process, which may be that of the log before."""
    outputs: list[LogOutput] = []
    for number, pid in enumerate(pids):
        first = line(number, number)
        first.pid = int(pid)
        outputs.append(NewProcess(first))
    facts = [out.body for _, out in in_order(outputs, 0) if isinstance(out, Fact)]
    assert [getattr(body, "finding", None) for body in facts] == [LINES_MIXED] * mixed


@pytest.mark.parametrize(
    ("apart_s", "mixed"),
    [
        ([1.25, 0.75] * 10, 1),  # sorted by stamps of before and after a step of the clock
        ([2.0] * 20, 0),
        ([0.1, 3.9] * 10, 0),  # the next tick after a late one is in its turn
        ([0.25] * 5 + [2.0] * 15, 0),
    ],
)
def test_a_loop_ticks_once_in_its_period(apart_s: list[float], mixed: int) -> None:
    """Twice as often are the ticks of two times."""
    outputs = entries(*(round(at_s * NS_PER_S) for at_s in accumulate(apart_s)))
    for output in outputs:
        assert isinstance(output, LogEntry)
        output.line.message = "SyncLoop (housekeeping)"
    facts = [out.body for _, out in in_order(outputs, 0) if isinstance(out, Fact)]
    assert [getattr(body, "finding", None) for body in facts] == [LINES_MIXED] * mixed


def test_a_step_of_the_clock_is_passed_by_nothing() -> None:
    """What stands before it in the log happened before."""
    before, after = 50 * NS_PER_S, 10 * NS_PER_S
    step = ClockStep(line(after, 2), before, after)
    outputs = [*entries(before, before + 1), step, LogEntry(line(after, 3), ())]
    assert [n for _, n in numbers(outputs)] == [0, 1, 2, 3]


def in_seconds(*outputs: LogOutput) -> list[tuple[float, float, str]]:
    """Time of release, own time, and line or finding."""
    found = []
    for key, out in in_order(outputs, 0):
        if isinstance(out, Fact):
            assert isinstance(out.body, FindingReported)
            found.append((key / NS_PER_S, out.ts_ns / NS_PER_S, out.body.finding))
        else:
            found.append((key / NS_PER_S, out.line.ts_ns / NS_PER_S, str(out.line.line)))
    return found


def test_a_line_ahead_of_its_time() -> None:
    """It stays between those that it stands between, with the time of the one above."""
    times = [round(s * NS_PER_S) for s in (1, 2, 60, 3, 3.1, 3.2, 3.3, 4)]
    wrong = WrongStamp(Doubt(times[2], times[1], times[3]))
    outputs = entries(*times)
    found = in_seconds(*outputs[:6], wrong, *outputs[6:])
    assert [what for *_, what in found] == ["0", "1", "2", LINES_DISAGREE, "3", "4", "5", "6", "7"]
    assert found[2][:2] == found[3][:2] == (2, 2)


def test_a_line_behind_its_time() -> None:
    """The same: nothing before it was given out late, and nothing waits for it."""
    times = [round(s * NS_PER_S) for s in (30, 31, 5, 31.1, 40)]
    wrong = WrongStamp(Doubt(times[2], times[1], times[3]))
    outputs = entries(*times)
    found = in_seconds(*outputs[:3], wrong, *outputs[3:])
    assert [what for *_, what in found] == ["0", "1", "2", LINES_DISAGREE, "3", "4"]
    assert found[2][:2] == (31, 31)


def test_the_finding_about_a_wrong_stamp() -> None:
    """Verification shows both sides."""
    times = [n * NS_PER_S for n in (30, 31, 5)]
    wrong = WrongStamp(Doubt(times[2], times[1], 32 * NS_PER_S))
    (fact,) = [out for _, out in in_order([*entries(*times), wrong], 0) if isinstance(out, Fact)]
    assert isinstance(fact.body, FindingReported)
    dispute = dispute_of(fact.body.message)
    assert dispute is not None
    assert dispute.subject == "node"
    assert dispute.here == "kubelet.log:2: 1970-01-01T00:00:05Z"
    assert dispute.elsewhere == "1970-01-01T00:00:31Z and 1970-01-01T00:00:32Z"
    assert fact.evidence[0].line == 2


def test_a_wrong_stamp_of_a_line_that_nobody_asked_for() -> None:
    wrong = WrongStamp(Doubt(60 * NS_PER_S, 2 * NS_PER_S, 3 * NS_PER_S))
    found = in_seconds(*entries(NS_PER_S, 2 * NS_PER_S), wrong, *entries(3 * NS_PER_S))
    assert [what for *_, what in found] == ["0", "1", "0"]


@given(st.lists(st.integers(0, 5 * NS_PER_S)))
def test_nothing_is_lost_and_time_does_not_go_back(times: list[int]) -> None:
    """Each entry comes once; what is less than a second late comes where it belongs."""
    found = numbers(entries(*times))
    assert sorted(n for _, n in found) == list(range(len(times)))
    assert [key for key, _ in found] == sorted(key for key, _ in found)
    if max(times, default=0) < NS_PER_S:
        assert [times[n] for _, n in found] == sorted(times)


def test_a_late_fact_waits_for_what_is_held_of_its_instant() -> None:
    """One line tells of a refusal and of its cause, which an assembler holds for its event."""
    held: list[int | None] = [7]
    sequencer = Sequencer([lambda: held[0]])
    consequence, cause = fact(7, late=True), fact(7)
    sequencer.put([fact(6), consequence])
    assert [f.ts_ns for f in sequencer.release(9)] == [6]
    sequencer.put([cause])
    held[0] = None
    assert list(sequencer.release(9)) == [cause, consequence]


def test_a_late_fact_waits_for_its_instant_to_end() -> None:
    """The next line may be of the same one."""
    sequencer = Sequencer([waiting(None)])
    consequence, cause = fact(7, late=True), fact(7)
    sequencer.put([consequence])
    assert list(sequencer.release(7)) == []
    sequencer.put([cause])
    assert list(sequencer.release(8)) == [cause, consequence]


def test_patience_ends_the_wait_for_what_is_held_long() -> None:
    """What was held for longer comes late; what is held shortly is still waited for."""
    sequencer = Sequencer([waiting(2), waiting(9)])
    sequencer.put([fact(5), fact(9), fact(10)])
    assert list(sequencer.release(11)) == []
    assert [f.ts_ns for f in sequencer.release(11, patience_ns=5)] == [5, 9]
    sequencer.put([fact(2)])
    assert [f.ts_ns for f in sequencer.release(11, patience_ns=5)] == [2]
