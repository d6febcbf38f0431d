"""Kills of pods that are stopped as a whole: cause, words and seconds."""

from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.lifecycle import (
    PodAdmitted,
    PodConfigChanged,
    PodRejected,
    PodTerminated,
    PodTerminating,
)
from kubeledger.model.bodies.node import ClockStepped, NodeTroubled, ShutdownProgressed
from kubeledger.verify import registry
from kubeledger.verify.rules.shutdowns import ShutdownVerifier
from tests.verify.container_scenes import (
    WHO,
    Step,
    added,
    began,
    died,
    event,
    judged,
    killed,
    listed,
    started,
    verdicts,
)
from tests.verify.histories import outcomes, scene

HOOKED = {"lifecycle": {"postStart": {"exec": {"command": ["false"]}}}}


def ending(reason: Any, grace_s: int | None = None) -> PodTerminating:  # noqa: ANN401 # a reason
    return PodTerminating(
        namespace="default", pod="p", pod_uid="u-1", reason=reason, grace_period_s=grace_s
    )


@pytest.mark.parametrize(
    ("source", "again", "uid", "says"),
    [
        ("api", "ADD", "u-2", "the pod was deleted"),
        ("file", "REMOVE", "u-2", "the static pod's manifest was removed"),
        ("file", "ADD", "u-2", "the static pod's manifest was changed"),
        ("file", "ADD", "u-1", "the static pod's manifest was changed"),
    ],
)
def test_a_static_pod_whose_manifest_changed(source: str, again: str, uid: str, says: str) -> None:
    """Another pod of the name, or the same UID again, comes in its place."""
    gone, new = (msgspec.structs.replace(added(how), source=source) for how in ("REMOVE", again))
    new = msgspec.structs.replace(new, pod_uid=uid)
    kill = killed(reason="pod_deleted", message="Stopping container app", grace_period_s=30)
    steps: list[Step] = [(1, listed()), (1.1, added()), (2, started("c1"))]
    steps += [(10, gone), (10.0001, ending("removed", 30)), (10.0002, new), (10.1, kill)]
    (finding, *_), _ = judged(*steps)
    assert finding.verdict == "match"
    assert says in finding.why


@pytest.mark.parametrize(("hook", "verdict"), [(HOOKED, "match"), ({}, "impossible")])
def test_a_failed_post_start_hook(hook: dict[str, Any], verdict: str) -> None:
    kill = killed(reason="post_start_hook", message="FailedPostStartHook", grace_period_s=30)
    steps: list[Step] = [(1, listed(hook)), (1.1, added()), (2, started("c1")), (3, kill)]
    assert verdicts(*steps) == [verdict]


@pytest.mark.parametrize(
    ("first", "then", "count"),
    [
        ("detected", None, 1),
        ("stopped", None, 1),
        ("refused", None, 0),
        ("detected", "cancelled", 0),
        ("detected", "kubelet", 0),
    ],
)
def test_a_pod_that_is_let_in_while_the_node_shuts_down(
    monkeypatch: pytest.MonkeyPatch, first: str, then: str | None, count: int
) -> None:
    """A refusal alone does not show how long the shutdown went on."""
    monkeypatch.setattr(registry, "verifiers_for", lambda kinds: (ShutdownVerifier,))
    other: Any = {"namespace": "default", "pod": "other", "pod_uid": "u-9"}
    (_, kubelet), *_ = began()
    signs = {
        "detected": ShutdownProgressed(step="detected"),
        "refused": PodRejected(**other, reason="NodeShutdown", message="shutting down"),
        "stopped": PodTerminating(**other, reason="shutdown", grace_period_s=7),
        "cancelled": ShutdownProgressed(step="cancelled"),
        "kubelet": msgspec.structs.replace(kubelet, pid=2),
    }
    steps: list[Step] = [*began(), (1, signs[first])]
    steps += [] if then is None else [(3, signs[then])]
    steps += [(5, added()), (5.1, PodAdmitted(**WHO))]
    found = [each.why for each in outcomes(scene(*steps)) if "is let in" in each.why]
    assert len(found) == count


_OTHER: dict[str, Any] = {"namespace": "default", "pod": "other", "pod_uid": "u-9"}
_CAME = PodConfigChanged(**_OTHER, operation="ADD", source="api")
"""The log goes on with it."""


def disputes(*steps: Step) -> str:
    return "; ".join(each.why for each in judged(*steps, (400, _CAME))[1])


@pytest.mark.parametrize(
    ("steps", "is_told"),
    [
        ((PodTerminated(**WHO), ending("deleted", 20)), True),
        ((PodTerminated(**WHO), killed("c1")), True),
        ((PodTerminated(**WHO), ending("orphaned")), False),
        ((PodTerminated(**WHO), added(), ending("deleted")), False),
        ((ending("deleted"), PodTerminated(**WHO)), False),
    ],
    ids=["stop", "kill", "cleared away", "came again", "in order"],
)
def test_a_pod_is_stopped_before_it_has_ended(steps: tuple[Any, ...], is_told: bool) -> None:
    history: list[Step] = [(1, listed()), (1.1, added()), (2, started("c1"))]
    history += [(60 + 10 * n, body) for n, body in enumerate(steps)]
    assert ("stopped after it has ended" in disputes(*history)) == is_told


@pytest.mark.parametrize(("start_s", "is_told"), [(100, True), (20, False), (129, False)])
def test_nothing_of_a_pod_starts_before_it_came(start_s: float, is_told: bool) -> None:
    """What a process finds within a minute of its start was there."""
    steps: list[Step] = [(start_s, started("c1")), (130, added()), (131, listed())]
    assert ("before its pod came" in disputes(*steps)) == is_told


@pytest.mark.parametrize(("turns", "is_told"), [("SSCC", True), ("SCSC", False), ("SCCS", False)])
def test_what_starts_was_created(turns: str, is_told: bool) -> None:
    names = {"S": "Started", "C": "Created"}
    steps: list[Step] = [(1, listed()), (1.1, added()), (2, started("c1"))]
    for n, letter in enumerate(turns):
        words = f"{names[letter]} container app"
        steps.append((20 + 20 * n, event(names[letter], words, warning=False)))
    assert ("before it is created" in disputes(*steps)) == is_told


@pytest.mark.parametrize(("seconds", "count"), [(5, 1), (1, 0)])
def test_a_stop_before_its_shutdown(
    monkeypatch: pytest.MonkeyPatch, seconds: float, count: int
) -> None:
    monkeypatch.setattr(registry, "verifiers_for", lambda kinds: (ShutdownVerifier,))
    steps: list[Step] = [*began(), (5, ending("shutdown", 7)),
                         (5 + seconds, ShutdownProgressed(step="detected"))]  # fmt: skip
    found = [each.why for each in outcomes(scene(*steps)) if "still to come" in each.why]
    assert len(found) == count


@pytest.mark.parametrize(
    ("version", "turn_s", "died_s", "count"),
    [
        ("1.36.2", 12, 30, 1),
        ("1.36.2", 12, 14, 0),
        ("1.36.2", 41, 60, 0),
        ("1.22.1", 12, 14, 1),
        ("1.22.1", 41, 42, 0),
    ],
)
def test_a_turn_that_comes_too_early(
    monkeypatch: pytest.MonkeyPatch, version: str, turn_s: float, died_s: float, count: int
) -> None:
    """Pods of a higher priority are stopped when the others have ended, or their time is over."""
    monkeypatch.setattr(registry, "verifiers_for", lambda kinds: (ShutdownVerifier,))
    periods = {"shutdownGracePeriod": "40s", "shutdownGracePeriodCriticalPods": "10s"}
    critical = msgspec.structs.replace(listed(uid="u-9", priority=2_000_000_000), pod="other")
    stopped = msgspec.structs.replace(ending("shutdown", 10), pod="other", pod_uid="u-9")
    steps: list[Step] = [*began(version, **periods), (1, listed()), (1, critical), (1.1, added())]
    steps += [(2, started("c1")), (10, ending("shutdown", 30)), (turn_s, stopped)]
    steps += [(died_s, died("c1"))]
    found = [each.why for each in outcomes(scene(*steps)) if "a higher priority" in each.why]
    assert len(found) == count


@pytest.mark.parametrize(
    ("stop", "reason", "verdict"),
    [
        ("deleted", "pod_deleted", "match"),
        ("ended", "pod_deleted", "impossible"),
        ("killed", "pod_deleted", "impossible"),
        ("orphaned", "node_shutdown", "impossible"),
        ("deleted", "node_shutdown", "impossible"),
    ],
)
def test_why_a_pod_is_stopped_and_its_containers_killed(
    stop: str, reason: str, verdict: str
) -> None:
    kill = killed(reason=reason, message="Stopping container app", grace_period_s=30)
    steps: list[Step] = [(1, listed()), (1.1, added()), (2, started("c1")), (59, added("DELETE"))]
    assert verdicts(*steps, (60, ending(stop, 30)), (60.1, kill)) == [verdict]


def test_a_pod_that_is_deleted_when_it_was_chosen() -> None:
    """What is tried again for a pod that was deleted meanwhile has two reasons."""
    kill = killed(reason="pod_deleted", message="Stopping container app", grace_period_s=30)
    steps: list[Step] = [(1, listed()), (1.1, added()), (2, started("c1")), (59, ending("killed"))]
    assert verdicts(*steps, (60, added("DELETE")), (60.1, kill)) == ["match"]


def test_a_pod_that_is_chosen_while_it_is_deleted() -> None:
    """Its worker stops it with the grace period of the deletion, of which it alone may tell."""
    kill = killed(reason="preempted", message="Stopping container app", grace_period_s=2)
    victim = event("Preempting", "Preempted in order to admit critical pod")
    begun: list[Step] = [(1, listed()), (1.1, added()), (2, started("c1")), (58, victim)]
    found = [verdicts(*begun, (59, ending(stop, 2)), (60, kill)) for stop in ("deleted", "killed")]
    assert found == [["match"], ["impossible"]]


@pytest.mark.parametrize(("is_blind", "told_s"), [(True, 66), (False, 66), (True, 42)])
def test_a_turn_after_an_end_that_is_told_late(
    monkeypatch: pytest.MonkeyPatch, is_blind: bool, told_s: float
) -> None:
    """A relist tells the ends of pods in any order, and waits for a runtime that is down."""
    monkeypatch.setattr(registry, "verifiers_for", lambda kinds: (ShutdownVerifier,))
    values = {"shutdownGracePeriod": "60s", "shutdownGracePeriodCriticalPods": "10s"}
    blind = NodeTroubled(
        trouble="runtime_down", message="refused", first_ts_ns=1_041 * 10**9,
        last_ts_ns=1_041 * 10**9, passed_ts_ns=1_065 * 10**9,
    )  # fmt: skip
    critical = msgspec.structs.replace(listed(uid="u-9", priority=2_000_001_000), pod="other")
    steps: list[Step] = [
        *began(**values), (1, listed()), (1, critical), (2, started("c1")),
        (40, ending("shutdown", 7)),
        (40.1, PodTerminating(**_OTHER, reason="shutdown", grace_period_s=7)),
        *(((41, blind),) if is_blind else ()), (told_s, died("c1")), (99, added()),
    ]  # fmt: skip
    found = [each.why for each in outcomes(scene(*steps)) if "all others have ended" in each.why]
    assert bool(found) is not is_blind


@pytest.mark.parametrize(("is_set", "count"), [(True, 0), (False, 1)])
def test_a_pod_whose_end_the_clock_put_before_it(
    monkeypatch: pytest.MonkeyPatch, is_set: bool, count: int
) -> None:
    monkeypatch.setattr(registry, "verifiers_for", lambda kinds: (ShutdownVerifier,))
    step = ClockStepped(from_ts_ns=1_090 * 10**9, to_ts_ns=1_010 * 10**9)
    steps: list[Step] = [
        *began(shutdownGracePeriod="60s", shutdownGracePeriodCriticalPods="10s"),
        (5, msgspec.structs.replace(started("c9"), **_OTHER)), (80, added()),
        (80.1, PodAdmitted(**WHO)), (81, started("c1")), (82, listed()),
        *([(10, step), (20, ending("ended")), (25, PodTerminated(**WHO))] if is_set else []),
        (200, PodTerminating(**_OTHER, reason="shutdown", grace_period_s=7)), (300, _CAME),
    ]  # fmt: skip
    found = [each.why for each in outcomes(scene(*steps)) if "had to be stopped" in each.why]
    assert len(found) == count
