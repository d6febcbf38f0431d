"""The report on both recorded nodes; the numbers were counted by hand in the raw files."""

from collections import Counter

import msgspec
import pytest

from kubeledger.analyze.completeness import Completeness, Span
from kubeledger.analyze.completeness.gaps import ActivityCount
from kubeledger.model.record import Record
from kubeledger.model.units import parse_ts
from tests.analyze.completeness.worlds import report
from tests.verify.histories import recorded

HOLE = (parse_ts("2026-11-21T03:01:00Z"), parse_ts("2026-11-21T03:01:40Z"))


@pytest.fixture(scope="module")
def node_a() -> Completeness:
    """Kubelet 1.20.2 with an API server and its list of events."""
    return report(recorded("node-a"))


@pytest.fixture(scope="module")
def node_b() -> Completeness:
    """Kubelet 1.36.2 without an API server."""
    return report(recorded("node-b"))


def test_every_lost_event_of_node_a_is_explained(node_a: Completeness) -> None:
    """503 lines ``Event occurred``; the API server never heard of 170 of them.

    Those are just the ones that the rules of the spam filter drop: it explains every loss,
    and drops nothing else but ten that a later repetition carries in its count.
    """
    reasons = node_a.events.reasons
    assert sum(reason.reported for reason in reasons) == 503
    assert sum(reason.never for reason in reasons) == 170
    assert sum(reason.counted for reason in reasons) == 10
    assert sum(reason.dropped for reason in reasons) == 180
    assert [lost.reports for lost in node_a.events.lost] == [170]
    assert "spam filter" in node_a.events.lost[0].why


def test_decisions_of_node_a_that_never_became_an_event(node_a: Completeness) -> None:
    lost = [delivery for delivery in node_a.events.decisions if delivery.delivery == "never"]
    assert Counter(delivery.reason for delivery in lost) == {
        "BackOff": 7, "ErrImageNeverPull": 20, "Killing": 7, "Started": 5, "Preempting": 1,
    }  # fmt: skip
    preempted = [delivery for delivery in lost if delivery.reason == "Preempting"]
    assert [delivery.subject for delivery in preempted] == ["pod/default/gpu-a"]
    assert "event 36 about pod default/gpu-a, of which 26 had passed" in preempted[0].why


def test_node_b_has_no_api_server(node_b: Completeness) -> None:
    """So no decision became an event, and none is said to have been lost."""
    assert node_b.events.standalone is True
    assert {delivery.delivery for delivery in node_b.events.decisions} == {"no list"}
    assert sum(reason.reported for reason in node_b.events.reasons) == 883


def test_both_logs_are_whole(node_a: Completeness, node_b: Completeness) -> None:
    """Two processes on node-a, five seconds apart; no gap, and counters that agree."""
    for node, processes in ((node_a, 2), (node_b, 1)):
        assert [p.begins for p in node.sources.processes] == ["start"] * processes
        assert (node.gaps.holes, node.gaps.gaps) == ([], [])
        assert all(not count.missing and not count.too_many for count in node.counters)
        assert (node.verbosity.verbosity, node.verbosity.shown) == (5, 5)
        assert not node.verbosity.thinned
    assert len(node_a.gaps.downtimes) == 1


def activity(node: Completeness, name: str) -> ActivityCount:
    return next(activity for activity in node.gaps.activities if activity.name == name)


def test_periodic_lines_of_both_nodes(node_a: Completeness, node_b: Completeness) -> None:
    """73 and 38 rounds of the eviction manager, none more than 10.1 s after the one before."""
    assert [activity(node, "eviction signals").seen for node in (node_a, node_b)] == [73, 38]
    for node in (node_a, node_b):
        assert 10_000_000_000 < activity(node, "eviction signals").longest_ns < 10_100_000_000
        assert 60_000_000_000 < activity(node, "QoS cgroup write").longest_ns < 60_100_000_000


def test_what_a_lower_verbosity_loses() -> None:
    """Node-b's records without those that rest on lines of level 3 and above."""
    gone = {"images.EvictionSignalObserved", "lifecycle.ReasonReported",
            "cgroups.QOSCgroupsUpdated", "images.ImagesDetected"}  # fmt: skip
    found = report([r for r in recorded("node-b") if r.kind not in gone]).verbosity
    assert found.thinned
    missing = {line.name for line in found.lines if line.status == "missing"}
    assert missing == {"eviction signals", "QoS cgroup writes"}


def is_of_log(record: Record) -> bool:
    return bool(record.evidence) and record.evidence[0].file == "kubelet.log"


def test_a_hole_of_forty_seconds_in_node_a() -> None:
    """It is one hole, and the kubelet's counters miss its ticks."""
    kept = [r for r in recorded("node-a") if not (is_of_log(r) and HOLE[0] <= r.ts_ns < HOLE[1])]
    found = report(kept)
    (hole,) = found.gaps.holes
    assert hole.from_ts_ns <= HOLE[0] < HOLE[1] <= hole.to_ts_ns
    assert found.gaps.gaps == []
    assert {"eviction signals", "readiness probe of default/ready-flap/app"} <= {
        gap.activity for gap in hole.activities
    }
    ticks = [
        r for r in recorded("node-a")
        if r.kind == "prober.ProbeExecuted" and HOLE[0] <= r.ts_ns < HOLE[1]
    ]  # fmt: skip
    counted = sum(c.successful + c.failed for c in found.counters if c.missing)
    reported = sum(c.recorded_successful + c.recorded_failed for c in found.counters if c.missing)
    # A tick at the very time of the reading may be in it or not.
    assert counted - reported - len(ticks) in {0, 1}


def test_ticks_that_are_missing_alone() -> None:
    kept = [
        r for r in recorded("node-a")
        if not (
            r.kind == "prober.ProbeExecuted" and HOLE[0] <= r.ts_ns < HOLE[1]
            and getattr(r.body, "pod", "") == "http-probe"
            and getattr(r.body, "probe_type", "") == "liveness"
        )
    ]  # fmt: skip
    found = report(kept)
    assert found.gaps.holes == []
    assert [gap.activity for gap in found.gaps.gaps] == ["liveness probe of default/http-probe/web"]
    (count,) = (count for count in found.counters if count.missing)
    assert (count.successful, count.recorded_successful) == (46, 38)
    assert count.missing == 7, "at least: the time of the reading is not known to the second"


def test_a_span_counts_only_what_is_in_it(node_a: Completeness) -> None:
    middle = parse_ts("2026-11-21T03:00:30Z")
    first = report(recorded("node-a"), Span(None, middle - 1))
    second = report(recorded("node-a"), Span(middle, None))
    assert first.records + second.records == node_a.records
    reasons = [sum(r.never for r in half.events.reasons) for half in (first, second)]
    assert all(reasons)
    assert sum(reasons) == 170
    assert first.missing.decisions + second.missing.decisions == node_a.missing.decisions


@pytest.mark.parametrize("step", [2, 3, 7])
def test_any_part_of_the_records_can_be_reported_on(step: int) -> None:
    for records in (recorded("node-a")[::step], recorded("node-b")[step * 100 :]):
        assert msgspec.json.encode(report(records))
