"""Probes, kills and restarts: one small history for each branch."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.lifecycle import ContainerDied, PodEvicted, PodListed
from kubeledger.model.bodies.node import ClockStepped
from kubeledger.model.bodies.preemption import PodPreempted
from kubeledger.model.bodies.prober import ProbeCountersRead, TickResult
from kubeledger.model.record import Body
from tests.verify.container_scenes import (
    WHO,
    added,
    alone,
    backed_off,
    began,
    changed_to,
    died,
    event,
    judged,
    killed,
    listed,
    restarted,
    settings,
    started,
    tick,
    verdicts,
)
from tests.verify.histories import findings, scene

__all__ = ["alone"]

Step = tuple[float, Body]
PROBE = {"periodSeconds": 10, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3}
LIVE = listed({"livenessProbe": PROBE})
BEGIN: tuple[Step, ...] = ((1, added()), (2, started("c1")))


def failing(at_s: float, *, times: int = 3) -> list[Step]:
    """Failures in a row, ten seconds apart."""
    return [(at_s + 10 * n, tick("failure")) for n in range(times)]


# -- probes ----------------------------------------------------------------------------------


def test_a_change_needs_its_run() -> None:
    """Three failures make one, two do not; a record may not leave out or add any."""
    good = (*BEGIN, *failing(10), (30, changed_to("failure", "success")), (40, LIVE))
    assert verdicts(*good) == ["match"]
    short = (*BEGIN, *failing(10, times=2), (20, changed_to("failure", "success")), (40, LIVE))
    (finding,), _ = judged(*short)
    assert finding.verdict == "impossible"
    assert "2 times in a row" in finding.why


def test_errors_do_not_count_and_warnings_succeed() -> None:
    """An errored execution is thrown away; a warning ends a run of failures."""
    for between, verdict in (("error", "match"), ("warning", "impossible")):
        steps: list[Step] = [
            *BEGIN, (10, tick("failure")), (20, tick("failure")), (30, tick(between)),  # type: ignore[arg-type] # both are results
            (40, tick("failure")), (40, changed_to("failure", "success")), (60, LIVE),
        ]  # fmt: skip
        assert verdicts(*steps) == [verdict], between


@pytest.mark.parametrize(
    ("between", "verdict"), [("error", "admissible"), ("failure", "impossible")]
)
def test_an_error_ends_no_run_of_successes_that_are_not_logged(
    between: TickResult, verdict: str
) -> None:
    """The first success of a new container may be the second in a row."""
    ready = listed({"readinessProbe": PROBE | {"successThreshold": 2}})
    steps = (
        *BEGIN, (10, tick("failure", "readiness")), (50, tick(between, "readiness")),
        (52, changed_to("success", "failure", "readiness", run=2, threshold=2)), (60, ready),
    )  # fmt: skip
    assert verdicts(*steps) == [verdict]


def test_the_run_outlives_its_container() -> None:
    """Two failures, an exit, and one failure of the next instance make three."""
    steps = (
        *BEGIN, *failing(10, times=2), (22, died("c1", 1)), (23, started("c2")),
        (23, restarted("c2", "c1")), (30, tick("failure", container_id="c2")),
        (30, changed_to("failure", "success", container_id="c2")), (50, LIVE),
    )  # fmt: skip
    assert verdicts(*steps) == ["match", "match"]


def test_a_missing_tick_leaves_it_open() -> None:
    """A gap of two periods: what rests on it cannot be verified."""
    steps = (
        *BEGIN, (10, tick("success")), (20, tick("failure")), (41, tick("failure")),
        (41, changed_to("failure", "success")), (70, LIVE),
    )  # fmt: skip
    (finding,), _ = judged(*steps)
    assert finding.missing == ("liveness ticks that may be missing before 1970-01-01T00:17:21Z",)


def test_a_log_that_begins_late() -> None:
    """Without the pod's ADD, ticks before the first one may be missing."""
    steps = (
        (2, started("c1")), (10, tick("failure")), (10, changed_to("failure", "success", run=None)),
        (50, LIVE),
    )  # fmt: skip
    (finding,), _ = judged(*steps)
    assert finding.missing == ("the liveness ticks before the log begins",)


def test_a_worker_on_hold_does_not_probe() -> None:
    """A tick of the same container after a failure: one of both is wrong."""
    steps = (*BEGIN, *failing(10), (30, changed_to("failure", "success")), (40, tick("failure")),
             (60, LIVE))  # fmt: skip
    (finding,), (dispute,) = judged(*steps)
    assert finding.verdict == "match"
    assert "waits for a new container" in dispute.why


def test_a_startup_success_holds_in_newer_kubelets() -> None:
    """Since 1.32; before, the worker rests only because the container has started."""
    startup = listed({"startupProbe": PROBE})
    steps = (
        *BEGIN, (10, tick("success", "startup")),
        (10, changed_to("success", "unknown", "startup", run=1, threshold=1)), (30, startup),
    )  # fmt: skip
    assert verdicts(*steps) == ["match"]
    assert verdicts(*steps, version="1.28.0") == ["match"]


def test_a_tick_after_a_startup_success() -> None:
    """In newer kubelets there is none; it is said once."""
    ticks = [(20.0 + 10 * n, tick("failure", "startup")) for n in range(3)]
    steps = (
        *BEGIN, (10, tick("success", "startup")),
        (10, changed_to("success", "unknown", "startup", run=1, threshold=1)), *ticks,
        (80, listed({"startupProbe": PROBE})),
    )  # fmt: skip
    (finding,), (dispute,) = judged(*steps)
    assert finding.verdict == "match"
    assert "waits for a new container" in dispute.why


def test_a_stopped_container_is_cached_as_failed() -> None:
    """Without a tick, once it has ended; not while it runs."""
    ready = listed({"readinessProbe": PROBE})
    up = changed_to("success", "failure", "readiness", run=1, threshold=1)
    down = changed_to("failure", "success", "readiness", run=None, threshold=None)
    lead: list[Step] = [*BEGIN, (10, tick("success", "readiness")), (10, up)]
    assert verdicts(*lead, (12, died("c1", 0)), (13, down), (30, ready)) == ["match", "match"]
    assert verdicts(*lead, (13, down), (30, ready)) == ["match", "impossible"]


def test_successes_that_are_not_logged() -> None:
    """A told success is admissible when there was time for its ticks."""
    slow = listed({"readinessProbe": PROBE | {"successThreshold": 3}})
    up = changed_to("success", "failure", "readiness", run=None, threshold=None)
    lead: list[Step] = [*BEGIN, (10, tick("failure", "readiness"))]
    assert verdicts(*lead, (41, up), (60, slow)) == ["admissible"]
    assert verdicts(*lead, (21, up), (60, slow)) == ["impossible"]


def test_a_change_that_was_not_recorded() -> None:
    """It had to come on the third failure; thresholds of the pod are known from another."""
    lead: list[Step] = [*BEGIN, *failing(10), (30, changed_to("failure", "success"))]
    more: list[Step] = [
        (31, killed()), (62, died("c1", 137)), (63, started("c2")),
        (63, restarted("c2", "c1", reason="liveness_probe")),
        *[(at_s + 60, tick("failure", container_id="c2")) for at_s in (10, 20, 30)],
        (150, LIVE),
    ]  # fmt: skip
    assert verdicts(*lead, *more) == ["match", "match", "match", "[ProbeTransitioned]"]


def test_a_change_without_a_probe() -> None:
    """Of a probe that the spec does not have, in a container that it does not have."""
    steps = (*BEGIN, *failing(10), (30, changed_to("failure", "success")), (40, listed()))
    assert verdicts(*steps) == ["impossible"]


@pytest.mark.parametrize(
    ("spec", "missing"),
    [(None, "the pod's spec"), ({"containers": 7}, "a readable spec of the pod")],
)
def test_missing_specs(spec: dict[str, Any] | None, missing: str) -> None:
    """All kinds of decisions name the spec; a back-off does without."""
    steps: list[Step] = [
        *BEGIN, *failing(10), (30, changed_to("failure", "success")), (31, killed()),
        (62, died("c1")), (63, started("c2")), (63, restarted("c2", "c1", reason=None)),
        (64, killed("c2", reason="preempted")), (70, backed_off(10)),
    ]  # fmt: skip
    if spec is not None:
        steps.append((99, listed(**spec)))
    *found, back_off = judged(*steps)[0]
    assert {f.missing for f in found} == {(missing,)}
    assert len(found) == 4
    assert back_off.missing == ("the restarts of container app since the kubelet started",)


def test_an_unknown_version() -> None:
    """The rules of no other version are used."""
    steps = (*BEGIN, *failing(10), (30, changed_to("failure", "success")), (31, killed()),
             (40, LIVE))  # fmt: skip
    found, _ = judged(*steps, version="1.99.0")
    assert {f.missing for f in found} == {("the rules of kubelet 1.99.0",)}


# -- other witnesses -------------------------------------------------------------------------


def test_early_ticks_disagree_with_the_period() -> None:
    """Liveness ticks come a period apart, unless the one before was late."""
    steps: list[Step] = [*BEGIN, *[(t, tick("success")) for t in (10, 20, 23)], (40, LIVE)]
    _, (found,) = judged(*steps)
    assert "every 10 s, and this one 3.0 s after" in found.why
    late: list[Step] = [*BEGIN, *[(t, tick("success")) for t in (10, 29, 31)], (40, LIVE)]
    assert judged(*late)[1] == []


def test_readiness_may_be_triggered() -> None:
    """Newer kubelets probe a container that is not ready at once."""
    ready = listed({"readinessProbe": PROBE})
    steps: list[Step] = [
        *BEGIN, *[(t, tick("failure", "readiness")) for t in (10, 20, 23)], (60, ready),
    ]  # fmt: skip
    assert judged(*steps)[1] == []
    assert len(judged(*steps, version="1.20.2")[1]) == 1


def test_an_event_denies_a_success() -> None:
    """The tick and the kubelet's event about it say different things."""
    steps = (*BEGIN, (10, tick("success")), (10.01, event("Unhealthy", "Liveness probe failed: x")),
             (40, LIVE))  # fmt: skip
    _, (found,) = judged(*steps)
    assert "the kubelet's event says that the probe failed" in found.why


def test_a_failure_without_its_event() -> None:
    """In a log in which the others have theirs."""
    steps: list[Step] = list(BEGIN)
    for n in range(5):
        steps += [
            (10 + 20 * n, tick("failure")), (20 + 20 * n, tick("success")),
            (10.01 + 20 * n, event("Unhealthy", "Liveness probe failed: x")),
        ]  # fmt: skip
    steps = sorted((step for step in steps if step[0] != 70.01), key=lambda step: step[0])
    _, (found,) = judged(*steps, (140, LIVE))
    assert "sent no event" in found.why


def test_counts_against_ticks() -> None:
    """A tick that was not counted, or not with its result."""

    def read(successful: int, failed: int) -> ProbeCountersRead:
        return ProbeCountersRead(
            **WHO, container="app", probe_type="liveness", successful=successful, failed=failed
        )

    lead: list[Step] = [*BEGIN, (10, tick("success")), (20, tick("failure")), (30, tick("success"))]
    tail: list[Step] = [(40, tick("success")), (50, tick("success")), (60, LIVE)]
    assert judged(*lead, (32, read(2, 1)), *tail)[1] == []
    for counts in ((3, 0), (1, 1)):
        _, found = judged(*lead, (32, read(*counts)), *tail)
        assert [len(each.sides) for each in found] == [2], counts


# -- kills -----------------------------------------------------------------------------------

FAILED: list[Step] = [*BEGIN, *failing(10), (30, changed_to("failure", "success"))]


def kill(listing: PodListed, *, version: str = "1.36.2", **fields: Any) -> str:  # noqa: ANN401 # any
    """Verdict on a kill after a failed liveness probe."""
    return verdicts(*FAILED, (31, killed(**fields)), (99, listing), version=version)[1]


def test_words_and_seconds_of_a_kill() -> None:
    """By restart policy and grace period, never below the minimum."""
    assert kill(LIVE) == "match"
    assert kill(LIVE, grace_period_s=29) == "impossible"
    zero = listed({"livenessProbe": PROBE}, terminationGracePeriodSeconds=0)
    assert kill(zero, grace_period_s=2) == "match"
    never = listed({"livenessProbe": PROBE}, restartPolicy="Never")
    assert kill(never) == "impossible"
    assert kill(never, message="Container app failed liveness probe") == "match"


def test_a_probes_own_grace_period() -> None:
    """Used since 1.22; behind a gate that is off in 1.21, unknown before."""
    own = listed({"livenessProbe": PROBE | {"terminationGracePeriodSeconds": 5}})
    for version, grace in (("1.36.2", 5), ("1.22.0", 5), ("1.21.0", 30), ("1.20.2", 30)):
        assert kill(own, version=version, grace_period_s=grace) == "match"
        assert kill(own, version=version, grace_period_s=35 - grace) == "impossible"


def test_a_pre_stop_hook_takes_time() -> None:
    """Any number down to the minimum."""
    hooked = listed({"livenessProbe": PROBE, "lifecycle": {"preStop": {"exec": {}}}})
    assert kill(hooked) == "match"
    assert kill(hooked, grace_period_s=12) == "admissible"
    assert kill(hooked, grace_period_s=31) == "impossible"


def test_a_containers_own_policy() -> None:
    """Since 1.35 it decides what the message says."""
    own = listed({"livenessProbe": PROBE, "restartPolicy": "Never"})
    assert kill(own, message="Container app failed liveness probe") == "match"
    assert kill(own, version="1.34.0") == "match"


def test_a_kill_without_its_cause() -> None:
    """No failure, no preemption, no eviction, no deletion."""
    lead: list[Step] = [*BEGIN, *[(t, tick("success")) for t in (10, 20, 30)]]
    stop = "Stopping container app"
    for reason, message in (
        ("liveness_probe", "Container app failed liveness probe, will be restarted"),
        ("preempted", stop),
        ("evicted", stop),
        ("pod_deleted", stop),
    ):
        assert verdicts(*lead, (31, killed(reason=reason, message=message)), (40, LIVE)) == [
            "impossible"
        ]
    unknown = killed(reason=None, message=stop)
    assert verdicts(*lead, (31, unknown), (40, LIVE)) == ["unverifiable"]


def test_kills_of_whole_pods() -> None:
    """Preempted, evicted and deleted pods; whose deletion may come with its own seconds."""
    stop = "Stopping container app"
    victim = PodPreempted(
        victim_namespace="default", victim_pod="p", victim_uid="u-1", preemptor_namespace=None,
        preemptor_pod=None, preemptor_uid=None, insufficient=(), evicted=True,
    )  # fmt: skip
    evicted = PodEvicted(
        **WHO, resource="memory", threshold_kind="hard", message=None, evicted=True
    )
    for cause, reason, grace in (
        (victim, "preempted", 30), (evicted, "evicted", 2), (added("DELETE"), "pod_deleted", 30),
    ):  # fmt: skip
        found, _ = judged(
            *BEGIN, (9, cause), (10, killed(reason=reason, message=stop, grace_period_s=grace)),
            (40, listed()),
        )  # fmt: skip
        assert found[-1].verdict == "match", reason
    side = [{"name": "side", "restartPolicy": "Always"}]
    reported = (0.2, settings({"evictionMaxPodGracePeriod": 10}))
    for kinds, inits, grace, verdict in (
        (["hard"], [], 2, "match"), (["hard"], [], 10, "impossible"),
        (["local_storage"], [], 10, "impossible"), (["soft"], [], 10, "match"),
        (["soft"], [], 2, "impossible"), (["soft", "hard"], [], 10, "unverifiable"),
        (["soft"], side, 7, "admissible"), (["soft"], side, 11, "impossible"),
        ([None], side, 2, "admissible"), ([None], side, 7, "unverifiable"),
        ([None], [], 10, "unverifiable"), ([None], [], 7, "impossible"),
    ):  # fmt: skip
        # The eviction tells which of the two it was. A pod with sidecars shares its seconds out.
        causes = [(9, msgspec.structs.replace(evicted, threshold_kind=kind)) for kind in kinds]
        gave = killed(reason="evicted", message=stop, grace_period_s=grace)
        found, _ = judged(reported, *BEGIN, *causes, (10, gave), (40, listed(initContainers=inits)))
        assert found[-1].verdict == verdict, (kinds, inits, grace)
    quick = killed(reason="pod_deleted", message=stop, grace_period_s=7)
    found, _ = judged(*BEGIN, (9, added("DELETE")), (10, quick), (40, listed()))
    assert found[-1].missing == ("the grace period that the pod was deleted with",)
    static = judged(*BEGIN, (9, added("REMOVE")), (10, quick), (40, listed(static=True)))[0]
    assert static[-1].verdict == "impossible"


def test_a_failure_has_to_be_followed_by_a_kill() -> None:
    """Ten minutes later it is absent; not when the container ended, or the pod goes."""
    late: list[Step] = [(n * 200.0, added("RECONCILE")) for n in range(1, 6)] + [(900, LIVE)]
    assert verdicts(*FAILED, *late) == ["match", "[ContainerKilled]"]
    assert verdicts(*FAILED, (32, died("c1", 0)), *late) == ["match"]
    assert verdicts(*FAILED, (32, added("DELETE")), *late) == ["match"]


# -- restarts and back-off -------------------------------------------------------------------


def crash(times: int, *, first_s: float = 2, held: bool = True) -> list[Step]:
    """A container that exits after a second, and is started again when its back-off is over."""
    steps: list[Step] = []
    at_s, back_off_s = first_s, 0
    for n in range(1, times + 1):
        steps += [(at_s + 1, died(f"c{n}", 1))]
        if back_off_s and held:
            steps += [(at_s + 1.5, backed_off(back_off_s))]
        at_s += 1.5 + back_off_s
        back_off_s = min(2 * back_off_s, 300) or 10
        steps += [(at_s, started(f"c{n + 1}")), (at_s, restarted(f"c{n + 1}", f"c{n}"))]
    return steps


def test_back_off_doubles() -> None:
    """None for the first restart, then 10 s and so on."""
    steps = [*BEGIN, *crash(5), (400, listed())]
    found, _ = judged(*steps)
    assert {f.verdict for f in found} == {"match"}
    held = [f.expected for f in found if f.kind == "lifecycle.RestartBackedOff"]
    assert held == [{"back_off_s": value} for value in (10, 20, 40, 80)]


def test_an_instance_seen_only_at_its_end() -> None:
    """What exits at once is not seen to run; its end comes before its restart."""
    steps: list[Step] = [
        *BEGIN, (3, died("c1", 1)), (4, died("c2", 1)), (4, restarted("c2", "c1")),
        (4.5, backed_off(10)), (15, died("c3", 1)), (15, restarted("c3", "c2")),
        (15.5, backed_off(20)), (40, listed()),
    ]  # fmt: skip
    assert verdicts(*steps) == ["match"] * 4


@pytest.mark.parametrize(("died_s", "verdict"), [(40.001, "match"), (42, "impossible")])
def test_an_instance_that_a_waiting_sync_loop_tells_of(died_s: float, verdict: str) -> None:
    """Start and end come out of two relists; told at once, both were earlier."""
    steps: list[Step] = [
        *BEGIN, *crash(1), (5, died("c2", 1)), (5.5, backed_off(10)),
        (40, started("c3")), (40, restarted("c3", "c2")), (died_s, died("c3", 1)),
        (45, started("c4")), (45, restarted("c4", "c3")), (60, listed()),
    ]  # fmt: skip
    assert verdicts(*steps)[-1] == verdict


def test_too_early_and_too_late() -> None:
    """A start before the back-off was over, and a back-off that was over or nobody knows of."""
    early: list[Step] = [*BEGIN, *crash(1), (5, died("c2", 1)), (8, started("c3")),
                         (8, restarted("c3", "c2")), (40, listed())]  # fmt: skip
    found, _ = judged(*early)
    assert [f.verdict for f in found] == ["match", "impossible"]
    assert "of a back-off of 10.0 s had passed" in found[-1].why
    over: list[Step] = [*BEGIN, *crash(1), (5, died("c2", 1)), (16, backed_off(10)), (40, listed())]
    assert verdicts(*over) == ["match", "unverifiable"]
    none: list[Step] = [*BEGIN, (3, died("c1", 1)), (3.5, backed_off(10)), (40, listed())]
    found, _ = judged(*none)
    assert found[0].missing == ("the restarts of container app since the kubelet started",)


def test_back_off_is_forgotten() -> None:
    """After ten minutes in which it was not raised."""
    steps: list[Step] = [
        *BEGIN, *crash(2), *[(at_s, added("RECONCILE")) for at_s in (200, 400, 600, 800)],
        (900, died("c3", 1)), (900.5, started("c4")), (900.5, restarted("c4", "c3")),
        (901, died("c4", 1)), (901.5, backed_off(10)), (950, listed()),
    ]  # fmt: skip
    assert verdicts(*steps) == ["match"] * 5


def test_starts_that_failed_raise_it_too() -> None:
    """Nobody knows how often: greater values cannot be verified, smaller ones are impossible."""
    lead: list[Step] = [*BEGIN, *crash(2), (16, died("c3", 1)), (16.1, event("Failed", "Error: x"))]
    for value, verdict in ((20, "unverifiable"), (80, "unverifiable"), (10, "impossible")):
        assert verdicts(*lead, (16.5, backed_off(value)), (40, listed()))[-1] == verdict


def test_settings_of_the_back_off() -> None:
    """A maximum and gates decide; what counts and is not known is named."""

    def held(version: str, **values: Any) -> list[str]:  # noqa: ANN401 # any setting
        records = scene(*began(version, **values), *BEGIN, *crash(3), (60, listed()))
        found = [f for f in findings(records) if f.kind == "lifecycle.RestartBackedOff"]
        return [" ".join(f.missing) or f.verdict for f in found]

    assert held("1.34.0", crashLoopBackOff=None) == ["match", "match"]
    assert (
        held("1.35.0", crashLoopBackOff=None) == ["crashLoopBackOff.maxContainerRestartPeriod"] * 2
    )
    assert held("1.20.2", featureGates=None) == ["match", "match"]
    assert held("1.36.2", featureGates=None) == ["the feature gates"] * 2
    shorter = {"maxContainerRestartPeriod": "10s"}
    assert held("1.36.2", crashLoopBackOff=shorter) == ["match", "impossible"]
    assert held("1.34.0", featureGates={"ReduceDefaultCrashLoopBackOffDecay": True}) == [
        "impossible", "impossible",
    ]  # fmt: skip
    assert (
        held("1.36.2", crashLoopBackOff={"maxContainerRestartPeriod": "soon"})
        == ["crashLoopBackOff.maxContainerRestartPeriod"] * 2
    )


@pytest.mark.parametrize(
    ("policy", "code", "verdict"),
    [
        ("Always", 0, "match"),
        ("OnFailure", 1, "match"),
        ("OnFailure", 0, "impossible"),
        ("Never", 1, "impossible"),
    ],
)
def test_restart_policies(policy: str, code: int, verdict: str) -> None:
    """By the exit code, in any version."""
    steps: list[Step] = [
        *BEGIN, (3, died("c1", code)), (4, started("c2")), (4, restarted("c2", "c1")),
        (40, listed(restartPolicy=policy)),
    ]  # fmt: skip
    for version in ("1.20.2", "1.36.2"):
        assert verdicts(*steps, version=version) == [verdict]


def test_rules_of_a_container() -> None:
    """They may restart what the policy would not."""
    rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
    own = listed({"restartPolicy": "Never", "restartPolicyRules": rules}, restartPolicy="Never")
    for code, verdict in ((42, "match"), (1, "impossible")):
        steps: list[Step] = [*BEGIN, (3, died("c1", code)), (4, started("c2")),
                             (4, restarted("c2", "c1")), (40, own)]  # fmt: skip
        assert verdicts(*steps) == [verdict]


def test_names_of_a_restart() -> None:
    """The instance before, the reason of its end, and the count."""
    for fields, verdict in (
        ({}, "match"),
        ({"before": "other"}, "impossible"),
        ({"reason": "preempted"}, "impossible"),
    ):
        restart = restarted("c2", **({"before": "c1"} | fields))
        steps: list[Step] = [*BEGIN, (3, died("c1", 1)), (4, started("c2")), (4, restart),
                             (40, listed())]  # fmt: skip
        assert verdicts(*steps) == [verdict]


def test_words_of_a_restart_after_a_kill_by_the_kernel() -> None:
    """A death that follows from something, and not from a kill by the kubelet, was the kernel's."""
    steps: list[Step] = [*BEGIN, (3, died("c1", 137)), (4, started("c2")),
                         (4, restarted("c2", "c1")), (40, listed())]  # fmt: skip
    reported = scene(*began("1.36.2"), *steps)
    caused = [
        msgspec.structs.replace(r, cause=reported[0].seq)
        if isinstance(r.body, ContainerDied)
        else r
        for r in reported
    ]
    for records, how in (
        (reported, "was found ended (exit code 137, SIGKILL)"),
        (caused, "was killed by the kernel, out of memory"),
    ):
        (found,) = [f for f in findings(records) if f.kind == "lifecycle.ContainerRestarted"]
        assert f" {how}, and restart policy Always starts it again" in found.why


def test_a_restart_of_nobody_knows_what() -> None:
    """The end of the instance before is not recorded."""
    steps: list[Step] = [(4, started("c2")), (4, restarted("c2", None, restart_count=3)),
                         (40, listed())]  # fmt: skip
    found, _ = judged(*steps)
    assert found[0].missing == ("the end of the container before",)


def test_a_clock_that_steps_back() -> None:
    """Times mean nothing across it, so back-off is not known."""
    step = ClockStepped(from_ts_ns=9, to_ts_ns=3)
    steps: list[Step] = [*BEGIN, *crash(2), (14.7, step), (16, died("c3", 1)),
                         (16.5, backed_off(20)), (40, listed())]  # fmt: skip
    assert verdicts(*steps)[-1] == "unverifiable"


def test_lists_and_manifests_that_disagree() -> None:
    """About what cannot change while a pod lives, or is counted once."""
    on_node: dict[str, Any] = {
        "nodeName": "n1",
        "containers": [{"name": "app", "livenessProbe": PROBE}],
    }
    static = msgspec.structs.replace(listed(static=True, **on_node), pod="p-n1", pod_uid="u-9")
    manifest = msgspec.structs.replace(listed(), pod_uid=None, listed_by="manifest")
    again = [
        msgspec.structs.replace(
            listed(),
            status={
                "containerStatuses": [
                    {"name": "app", "containerID": "x://c1", "restartCount": count}
                ]
            },
        )
        for count in (0, 3)
    ]
    for shown, why, says in (
        ((LIVE, listed()), "2 lists of the pod differ", "pod u-1: version 2"),
        (again, "different restarts up to the same container c1", "restartCount 3"),
        ((static, manifest), "differ in livenessProbe of container app", "there"),
    ):
        _, (found,) = judged(*((10.0 + n, body) for n, body in enumerate(shown)))
        assert why in found.why
        assert says in found.sides[-1].says
    assert judged((10, static), (11, msgspec.structs.replace(manifest, pod="other")))[1] == []
