"""Gaps in a kubelet's periodic lines, holes in its log, and its own counters."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec
import pytest

from kubeledger.analyze.completeness import Span
from kubeledger.model.bodies.cgroups import QOSCgroupsUpdated
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.lifecycle import ContainerDied
from kubeledger.model.bodies.node import ClockStepped, LogThinned
from kubeledger.model.bodies.prober import ProbeCountersRead
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S, parse_ts
from tests.analyze.completeness.worlds import POD, imported, report, spec_of, started, tick
from tests.verify.histories import scene

Steps = Sequence[tuple[float, Body]]
SIGNAL = EvictionSignalObserved(signal="memory.available", available=1, capacity=2)


def signals(*, without: range = range(0)) -> Steps:
    """An eviction signal every 10 s of five minutes, some left out."""
    return [(float(s), SIGNAL) for s in range(10, 300, 10) if s not in without]


def ordered(*steps: Steps) -> list[Record]:
    """A scene in the order of time, after a kubelet's start."""
    return scene((0, started()), *sorted(chain(*steps), key=lambda step: step[0]))


def test_a_regular_log_has_no_gap() -> None:
    steps = [(s + (s % 30) / 10, body) for s, body in signals()]
    found = report(ordered(steps)).gaps
    assert (found.holes, found.gaps) == ([], [])
    assert [(activity.name, activity.seen) for activity in found.activities] == [
        ("eviction signals", 29)
    ]


def test_lost_lines_are_reported_as_the_import_saw_them() -> None:
    """They are no gap of another line, and the record's own place says nothing."""
    at_ns = parse_ts("1970-01-01T00:18:20Z")
    lost = LogThinned(
        from_ts_ns=at_ns,
        to_ts_ns=at_ns + NS_PER_S,
        beats_expected=150,
        beats_missing=2,
        beats={"housekeeping": 2},
    )
    records = ordered(signals(), [(299.0, lost)])
    found = report(records).gaps
    (reported,) = found.lost
    assert (reported.missing, reported.expected, reported.activities) == (
        2,
        150,
        {"housekeeping": 2},
    )
    assert (found.holes, found.gaps) == ([], [])
    assert reported.seq == next(r.seq for r in records if isinstance(r.body, LogThinned))
    assert report(records, Span(until_ns=at_ns - 1)).gaps.lost == []


def test_a_gap_in_one_periodic_line_while_the_log_continues() -> None:
    other = [(float(s), QOSCgroupsUpdated()) for s in range(2, 300, 2)]
    found = report(ordered(signals(without=range(100, 200)), other)).gaps
    assert found.holes == []
    assert [(gap.activity, gap.missing) for gap in found.gaps] == [("eviction signals", 10)]


def test_probes_tick_in_the_period_of_their_spec() -> None:
    ticks: Steps = [(s + 0.5, tick()) for s in range(0, 200, 2) if not 100 <= s < 120]
    noise = [(s + 0.2, QOSCgroupsUpdated()) for s in range(300)]
    found = report(ordered(signals(), ticks, noise, [(250.0, spec_of(2))])).gaps
    (gap, end) = found.gaps
    assert (gap.activity, gap.missing) == ("readiness probe of shop/web/app", 10)
    assert end.from_ts_ns == 1_198 * NS_PER_S + NS_PER_S // 2, "and at 198 s they stop"


def test_without_a_spec_the_period_is_not_known() -> None:
    found = report(ordered([(float(s), tick()) for s in (0, 2, 90)])).gaps
    assert (found.gaps, found.without_spec) == ([], ["shop/web"])


def test_without_successes_ticks_are_not_periodic() -> None:
    """Below verbosity 3 failures alone are there."""
    ticks: Steps = [(float(s), tick("failure")) for s in (0, 2, 90)]
    assert report(ordered(ticks, [(95.0, spec_of(2))])).gaps.gaps == []


@pytest.mark.parametrize("container_id", ["c1", "c2"])
def test_a_new_container_begins_anew(container_id: str) -> None:
    died = ContainerDied(**POD, container="app", container_id="c1")
    ticks: Steps = [(0.0, tick()), (2.0, tick()), (90.0, tick(container_id=container_id))]
    steps: Steps = [(3.0, died)] if container_id == "c1" else []
    assert report(ordered(ticks, steps, [(91.0, spec_of(2))])).gaps.gaps == []


def test_a_startup_probe_that_succeeded_is_asked_no_more() -> None:
    """Another of its ticks much later is that of a kubelet that began anew."""
    ticks: Steps = [(0.0, tick("failure", "startup")), (2.0, tick("success", "startup"))]
    late: Steps = [(90.0, tick("success", "startup")), (91.0, spec_of(2, "startupProbe"))]
    assert report(ordered(ticks, late)).gaps.gaps == []


def test_periodic_lines_that_stop_before_the_log_does() -> None:
    """The gap reaches up to the end."""
    noise = [(s + 0.2, QOSCgroupsUpdated()) for s in range(300)]
    found = report(ordered(signals(without=range(150, 300)), noise)).gaps
    assert [(gap.activity, gap.missing) for gap in found.gaps] == [("eviction signals", 15)]


def test_gaps_outside_of_the_span_are_not_listed() -> None:
    records = ordered(signals(without=range(100, 200)))
    assert report(records).gaps.holes
    assert not report(records, Span(None, 1_060 * NS_PER_S)).gaps.holes


def test_snapshots_that_were_not_taken() -> None:
    seconds = (0, 15, 30, 46, 61, 121, 136)
    names = [(f"2026-11-21T03:{s // 60:02}:{s % 60:02}Z", "pod-list") for s in seconds]
    found = report(scene((0, imported(*names))), source_time=parse_ts).gaps
    assert [(gap.activity, gap.missing) for gap in found.gaps] == [("snapshot of the node", 3)]


def test_steps_of_the_clock() -> None:
    stepped = ClockStepped(from_ts_ns=9, to_ts_ns=5)
    (step,) = report(scene((0, stepped))).gaps.clock_steps
    assert (step.seq, step.from_ts_ns, step.to_ts_ns) == (1, 9, 5)


def reading(successful: int, failed: int) -> ProbeCountersRead:
    return ProbeCountersRead(
        **POD, container="app", probe_type="readiness", successful=successful, failed=failed
    )


def test_counters_have_the_time_of_a_whole_second() -> None:
    for successful in (1, 2):
        steps: Steps = [(0.0, tick()), (9.0, tick()), (10.0, reading(successful, 0))]
        (count,) = report(ordered(steps)).counters
        assert (count.missing, count.too_many) == (0, 0)


def test_counters_begin_anew_with_the_process() -> None:
    before: Steps = [(s * 2.0, tick()) for s in range(5)]
    after: Steps = [(20.0, started(restart=True)), (22.0, tick("warning")), (40.0, reading(1, 0))]
    (count,) = report(ordered(before, after)).counters
    assert (count.missing, count.too_many) == (0, 0)


def test_odd_specs_do_not_stop_the_report() -> None:
    odd: Any = msgspec.structs.replace(spec_of(2), spec={"containers": 7})
    found = report(ordered([(0.0, tick()), (2.0, tick())], [(3.0, odd)])).gaps
    assert found.without_spec == ["shop/web"]
