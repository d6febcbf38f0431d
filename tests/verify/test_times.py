"""When containers can have started and ended, and how late lines are."""

from typing import Any

import pytest

from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerStarted,
    KubernetesEvent,
    PodListed,
    PodTerminated,
)
from kubeledger.model.bodies.node import ClockStepped, NodeTroubled
from kubeledger.model.record import Body
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.verify.evidence.pods import ListedInstances
from kubeledger.verify.evidence.times import Times, _most
from tests.verify.histories import kubelet_of, scene

POD: dict[str, Any] = {"namespace": "d", "pod": "a", "pod_uid": "u"}
PROCESS = kubelet_of(from_start=True)
Step = tuple[float, Body]


def started(at: float, container_id: str = "1", name: str = "c") -> Step:
    body = ContainerStarted(**POD, container=name, container_id=container_id, sandbox=False)
    return at, body


def died(at: float, container_id: str = "1") -> Step:
    return at, ContainerDied(**POD, container="c", container_id=container_id, sandbox=False)


def listed(began: float, ended: float | None = None, container_id: str = "1") -> Step:
    times = {"startedAt": format_ts(round(began) * NS_PER_S)}
    state: dict[str, Any] = {"running": times}
    if ended is not None:
        times["finishedAt"] = format_ts(round(ended) * NS_PER_S)
        state = {"terminated": times}
    status = {"name": "c", "containerID": f"containerd://{container_id}", "state": state}
    listing = {"phase": "Running", "containerStatuses": [status]}
    return 900, PodListed(**POD, spec={}, status=listing, listed_by="kubelet")


def times(*steps: Step) -> Times:
    instances = ListedInstances()
    found = Times(instances)
    for record in scene((0, PROCESS), *sorted(steps, key=lambda step: step[0]), start_s=0):
        if isinstance(record.body, PodListed):
            instances.note(record)
        found.note(record)
    found.settle()
    return found


def span(found: Times, container_id: str, told: float) -> tuple[float, float] | None:
    when = found.started(container_id, round(told * NS_PER_S))
    return None if when is None else (when.from_ns // NS_PER_S, when.to_ns // NS_PER_S)


@pytest.mark.parametrize(
    ("spans", "greatest"),
    [
        ([], []),
        ([(0, 4, 2), (2, 6, 3)], [(0, 2), (2, 3), (4, 3), (6, 0)]),
        ([(0, 9, 5), (2, 3, 7)], [(0, 5), (2, 7), (3, 5), (9, 0)]),
        ([(0, 1, 5), (1, 2, 1), (4, 5, 1)], [(0, 5), (1, 1), (2, 0), (4, 1), (5, 0)]),
    ],
)
def test_the_greatest_of_spans_that_overlap(
    spans: list[tuple[int, int, int]], greatest: list[tuple[int, int]]
) -> None:
    assert _most(spans) == greatest


def test_a_list_says_it_to_the_second() -> None:
    found = times(started(100), died(160), listed(61, 90))
    assert span(found, "1", 100) == (61, 61)
    ended = found.listed_end("1", 160 * NS_PER_S)
    assert ended is not None
    assert ended.from_ns == 90 * NS_PER_S


def test_one_late_line_says_that_others_near_may_be_as_late() -> None:
    found = times(started(100), listed(61), started(110, "2"), started(700, "3"))
    assert span(found, "2", 110) == (71, 110)
    assert span(found, "3", 700) == (697, 700)


def test_a_pod_is_over_after_its_containers() -> None:
    found = times(started(100), (130, PodTerminated(**POD)), died(170))
    assert found.late(170 * NS_PER_S) // NS_PER_S == 40


def test_a_line_that_alone_is_early() -> None:
    others = started(100), listed(99), started(200, "3"), listed(199, container_id="3")
    found = times(*others, started(110, "2"), listed(150, container_id="2"))
    assert (found.early("2", 110 * NS_PER_S) or ())[:1] == (150 * NS_PER_S,)


def test_what_a_list_shows_is_not_forgotten() -> None:
    found = times(started(100), died(160), listed(61, 90), started(110, "2"), died(160, "2"))
    found.forget(900 * NS_PER_S, ())
    found.settle()
    assert found.late(100 * NS_PER_S) // NS_PER_S == 70


def test_an_event_shows_how_late_lines_are() -> None:
    event = KubernetesEvent(
        **POD, object_kind="Pod", container="c", type="Normal", reason="Started", message=""
    )
    assert span(times((70, event), started(100)), "1", 100) == (70, 100)


def test_what_ran_before_the_process_is_not_late() -> None:
    again = kubelet_of(pid=2, from_start=True, restart=True)
    found = times(started(10), listed(9), (400, again), started(405), started(410, "2"))
    assert span(found, "2", 410) == (407, 410)


def test_no_relist_sees_anything_while_the_runtime_is_down() -> None:
    trouble = NodeTroubled(
        trouble="runtime_down",
        message="connection refused",
        first_ts_ns=100 * NS_PER_S,
        last_ts_ns=130 * NS_PER_S,
        passed_ts_ns=140 * NS_PER_S,
    )
    assert span(times((131, trouble), died(141)), "1", 141) == (101, 141)
    assert span(times(died(141)), "1", 141) == (138, 141)


def test_a_list_from_before_a_step_of_the_clock_says_nothing() -> None:
    step = ClockStepped(from_ts_ns=105 * NS_PER_S, to_ts_ns=95 * NS_PER_S)
    found = times(listed(100), (95, step), started(101))
    assert span(found, "1", 101) == (98, 101)


def test_what_goes_back_over_its_last_step_again_and_again_is_no_clock() -> None:
    """Lines that were sorted by something else; a clock that is set back often goes on between."""
    back = ClockStepped(from_ts_ns=105 * NS_PER_S, to_ts_ns=95 * NS_PER_S)
    for at, everywhere in (((95, 95, 95, 95), True), ((95, 95, 95), False), ((95, 96, 97), False)):
        spans = [(start, end) for _, start, end in times(*((s, back) for s in at)).two_clocks()]
        assert ((0, None) in spans) == everywhere


def test_two_clocks_end_with_the_process() -> None:
    step = ClockStepped(from_ts_ns=105 * NS_PER_S, to_ts_ns=95 * NS_PER_S)
    again = kubelet_of(pid=2, from_start=True, restart=True)
    ((_, from_ns, to_ns),) = times((95, step), (200, again)).two_clocks()
    assert (from_ns, to_ns) == (25 * NS_PER_S, 500 * NS_PER_S)
    late = listed(610, container_id="2")
    ((_, _, to_ns),) = times((95, step), (200, again), started(600, "2"), late).two_clocks()
    assert to_ns is None


@pytest.mark.parametrize(("at", "is_named"), [(104, False), (105, True)])
def test_a_step_over_the_start_of_another_process_is_no_clock(at: int, is_named: bool) -> None:
    step = ClockStepped(from_ts_ns=105 * NS_PER_S, to_ts_ns=95 * NS_PER_S)
    again = kubelet_of(pid=2, from_start=True, restart=True)
    ((seq, _, _),) = times((95, step), (at, again)).two_clocks()
    assert bool(seq) is is_named
