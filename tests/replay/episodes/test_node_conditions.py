"""Conditions and troubles of the node as intervals."""

from __future__ import annotations

import pytest

from kubeledger.model.bodies.eviction import NodeConditionsChanged
from kubeledger.model.bodies.node import KubeletStarted, NodeConditionChanged, NodeTroubled
from kubeledger.model.record import Body
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.episodes.node_conditions import NodeConditions, node_conditions
from tests.replay.strategies import record


def fold(*bodies: tuple[int, Body]) -> NodeConditions:
    """What records at these seconds add up to."""
    return node_conditions(
        record(seq, body, at * NS_PER_S) for seq, (at, body) in enumerate(bodies, 1)
    )


def said(first: int, last: int, count: int = 1, passed: int | None = None) -> NodeTroubled:
    """The PLEG is not healthy, ``count`` times between these seconds."""
    return NodeTroubled(
        trouble="pleg_unhealthy",
        message="PLEG is not healthy",
        count=count,
        first_ts_ns=first * NS_PER_S,
        last_ts_ns=last * NS_PER_S,
        passed_ts_ns=None if passed is None else passed * NS_PER_S,
    )


def ready(status: str, reason: str | None = None) -> NodeConditionChanged:
    return NodeConditionChanged(condition="Ready", status=status, reason=reason)  # type: ignore[arg-type]


def test_a_condition_lasts_until_it_changes() -> None:
    found = fold(
        (1, ready("True")), (5, ready("False")), (6, ready("False", "Why")), (9, ready("True"))
    )
    assert [
        (each.ts_ns // NS_PER_S, each.status, each.reason, each.until_ts_ns)
        for each in found.conditions()
    ] == [
        (1, "True", None, 5 * NS_PER_S),
        (5, "False", "Why", 9 * NS_PER_S),
        (9, "True", None, None),
    ]


def test_the_eviction_manager_tells_of_pressure_too() -> None:
    """Which is in the kubelet's hands before the node object shows it."""
    pressed = NodeConditionsChanged(conditions=("DiskPressure",), observed=("DiskPressure",))
    found = fold(
        (1, pressed),
        (2, NodeConditionChanged(condition="DiskPressure", status="True")),
        (8, NodeConditionsChanged(conditions=(), observed=())),
    )
    assert [(each.status, each.ts_ns // NS_PER_S) for each in found.conditions()] == [
        ("True", 1),
        ("False", 8),
    ]


@pytest.mark.parametrize(
    ("from_start", "restart", "until"), [(True, False, 5), (False, True, 5), (False, False, None)]
)
def test_a_process_that_begins_knows_of_no_pressure(
    from_start: bool, restart: bool, until: int | None
) -> None:
    """One that was running before the log goes on with what it had reported."""
    pressed = NodeConditionsChanged(conditions=("PIDPressure",), observed=("PIDPressure",))
    started = KubeletStarted(
        pid=1, kubelet_version=None, version_source=None, from_start=from_start, restart=restart
    )
    (first, *_) = fold((1, pressed), (5, started)).conditions()
    assert first.until_ts_ns == (None if until is None else until * NS_PER_S)


def test_a_trouble_is_one_as_long_as_it_is_said() -> None:
    """It ends with what shows that it passed, or with two minutes in which nobody says so."""
    found = fold(
        (1, said(1, 1)),
        (60, said(10, 50, 8)),
        (61, said(50, 50, 0, passed=61)),
        (70, said(70, 70)),
        (400, said(390, 400, 2)),
        (600, said(400, 400, 0, passed=600)),
    )
    assert [
        (each.ts_ns // NS_PER_S, each.attempts, each.last_ts_ns // NS_PER_S, each.passed_ts_ns)
        for each in found.troubles()
    ] == [(1, 9, 50, 61 * NS_PER_S), (70, 1, 70, None), (390, 2, 400, 600 * NS_PER_S)]
