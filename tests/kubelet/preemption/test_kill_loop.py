"""Killing victims: events, status, metric and waits, and what a failed kill changes."""

from __future__ import annotations

import pytest

from kubeledger.kubelet.preemption.kill_loop import (
    MESSAGE,
    KillOutcome,
    Victim,
    kill_victims,
    kill_wait_s,
)
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.bodies.preemption import InsufficientResource

NEW, OLD = resolve("1.36.2").admission, resolve("1.20.2").admission
MISSING = (
    InsufficientResource(resource="memory", quantity=1 << 20),
    InsufficientResource(resource="cpu", quantity=100),
)
PREEMPTING = "Warning Preempting Preempted in order to admit critical pod"
EXCEEDED = (
    "Warning ExceededGracePeriod Container runtime did not kill the pod within specified grace "
    "period."
)


@pytest.mark.parametrize(
    ("grace_s", "wait_s"), [(None, 10), (0, 10), (6, 10), (7, 10), (30, 45), (31, 46), (-5, 10)]
)
def test_how_long_a_kill_is_waited_for(grace_s: int | None, wait_s: int) -> None:
    """Half as long again as the grace period, at least ten seconds."""
    assert kill_wait_s(grace_s) == wait_s


def test_a_failed_kill_is_passed_over() -> None:
    """Its event was sent before; the next victim is killed; it does not count."""
    victims = [Victim(uid="a", grace_s=30), Victim(uid="b"), Victim(uid="c")]
    outcomes = [KillOutcome(took_s=45.0), KillOutcome(took_s=None), KillOutcome(took_s=2.5)]
    loop = kill_victims(victims, outcomes, MISSING, NEW)
    assert [kill.uid for kill in loop.kills] == ["a", "b", "c"]
    assert [kill.events for kill in loop.kills] == [
        (PREEMPTING,),
        (PREEMPTING, EXCEEDED),
        (PREEMPTING,),
    ]
    assert [kill.error for kill in loop.kills] == ["", "timeout waiting to kill pod", ""]
    assert [kill.waited_s for kill in loop.kills] == [45.0, 10.0, 2.5]
    assert (loop.preemptions, loop.waited_s) == ({"memory": 2}, 57.5)


def test_a_kill_that_comes_late_has_failed() -> None:
    """The kubelet does not look again."""
    loop = kill_victims([Victim(uid="a", grace_s=1)], [KillOutcome(took_s=10.1)], MISSING, NEW)
    assert (loop.kills[0].waited_s, loop.kills[0].error) == (10.0, "timeout waiting to kill pod")
    assert loop.preemptions == {}


def test_an_error_of_the_runtime() -> None:
    """It used to end the wait; now the worker tries again."""
    victim, error = Victim(uid="a"), "rpc error"
    failed = "Warning FailedKillPod error killing pod: rpc error"
    again = KillOutcome(took_s=4.0, errors=(error, error))
    (old,) = kill_victims([victim], [again], MISSING, OLD).kills
    assert (old.events, old.error, old.waited_s) == ((PREEMPTING, failed), error, 4.0)
    (new,) = kill_victims([victim], [again], MISSING, NEW).kills
    assert (new.events, new.error, new.waited_s) == ((PREEMPTING, failed, failed), "", 4.0)
    never = KillOutcome(took_s=None, errors=(error,))
    (new,) = kill_victims([victim], [never], MISSING, NEW).kills
    assert new.events == (PREEMPTING, failed, EXCEEDED)


@pytest.mark.parametrize(
    ("version", "whole", "generation"),
    [
        ("1.20.2", True, None),
        ("1.21.9", True, None),
        ("1.22.0", False, None),
        ("1.26.5", False, None),
        ("1.26.7", False, 0),
        ("1.27.0", False, None),
        ("1.28.0", False, 0),
        ("1.33.9", False, 0),
        ("1.34.0", False, 3),
        ("1.36.2", False, 3),
    ],
)
def test_the_status_of_a_victim(version: str, whole: bool, generation: int | None) -> None:
    """Written whether or not the kill succeeds."""
    facts = resolve(version).admission
    victim = Victim(uid="a", generation=3)
    (kill,) = kill_victims([victim], [KillOutcome(took_s=None)], MISSING, facts).kills
    status = kill.status
    assert (status.phase, status.reason, status.message) == ("Failed", "Preempting", MESSAGE)
    assert status.whole is whole
    if generation is None:
        assert status.conditions == ()
        return
    (condition,) = status.conditions
    assert (condition.type, condition.status) == ("DisruptionTarget", "True")
    assert condition.reason == "TerminationByKubelet"
    assert condition.message == "Pod was preempted by Kubelet to accommodate a critical pod."
    assert condition.observed_generation == generation


def test_nothing_missing_counts_without_a_signal() -> None:
    """The label is empty then."""
    loop = kill_victims([Victim(uid="a")], [KillOutcome(took_s=0.0)], (), NEW)
    assert loop.preemptions == {"": 1}
