"""Probes, kills and restarts: one small history for each branch."""

from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.model.bodies.lifecycle import PodEvicted, PodListed, PodTerminating
from kubeledger.model.bodies.node import ClockStepped, PodStageFailed, Stage
from kubeledger.model.bodies.prober import ProbeCountersRead
from kubeledger.model.record import Body
from kubeledger.verify import Contradiction
from kubeledger.verify.finding import WORKED_OUT
from tests.verify.container_scenes import (
    WHO,
    added,
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
from tests.verify.histories import findings, outcomes, scene

Step = tuple[float, Body]
PROBE = {"periodSeconds": 10, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3}
LIVE = listed({"livenessProbe": PROBE})
BEGIN: tuple[Step, ...] = ((1, added()), (2, started("c1")))
ANOTHER = msgspec.structs.replace(started("c9"), pod="q", pod_uid="u-9")
NEW: tuple[Step, ...] = ((1, ANOTHER), *BEGIN)
"""The container is not among those that the process lists first, which may be older than it."""


def failing(at_s: float, *, times: int = 3) -> list[Step]:
    return [(at_s + 10 * n, tick("failure")) for n in range(times)]


# -- rows ------------------------------------------------------------------------------------


def said(*steps: Step, version: str | None = "1.36.2") -> list[str]:
    """Of each decision the verdict, or what is missing; what came not, and contradictions."""
    found, disputes = judged(*steps, version=version)
    return [
        *(
            " and ".join(f.missing) or (f.verdict if f.recorded is not None else f"absent {f.kind}")
            for f in found
        ),
        *["contradiction"] * len(disputes),
    ]


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


DOWN = changed_to("failure", "success")
UP = changed_to("success", "failure", "readiness", run=1, threshold=1)
UNSEEN_UP = changed_to("success", "failure", "readiness", run=None, threshold=None)
STARTED_UP = changed_to("success", "unknown", "startup", run=1, threshold=1)
UNTOLD_UP = msgspec.structs.replace(STARTED_UP, container_id="c2", inferred=True)
UNSEEN_DOWN = changed_to("failure", "success", container_id=None, run=None, threshold=None)
STOPPED = changed_to("failure", "success", "readiness", run=None, threshold=None)
READY = listed({"readinessProbe": PROBE})
BOTH = listed({"livenessProbe": PROBE, "readinessProbe": PROBE})
STARTUP = listed({"startupProbe": PROBE})
STARTING = listed({"startupProbe": PROBE, "readinessProbe": PROBE})
READY_BY_TWO = listed({"readinessProbe": PROBE | {"successThreshold": 2}})
READY_BY_THREE = listed({"readinessProbe": PROBE | {"successThreshold": 3}})
OLDER_UP = changed_to("success", "unknown", "readiness", run=1, threshold=1)
SECOND_UP = changed_to("success", "failure", "readiness", run=2, threshold=2)
SEEN_READY: list[Step] = [*NEW, (10, tick("success", "readiness")), (10, UP)]
STARTED_ONCE: list[Step] = [*BEGIN, (10, tick("success", "startup")), (10, STARTED_UP)]
FAILED_EVENT = event("Unhealthy", "Liveness probe failed: x")
CRASHED: list[Step] = [*BEGIN, *crash(1), (5, died("c2", 1))]
HELD = "the restarts of container app since the kubelet started"
FAILED_STARTS = "events about starts of container app that failed"
RULES = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
RULED = listed({"restartPolicy": "Never", "restartPolicyRules": RULES}, restartPolicy="Never")


def ends_and_restarts(code: int, shown: PodListed, **fields: Any) -> list[Step]:  # noqa: ANN401 # any
    restart = restarted("c2", **({"before": "c1"} | fields))
    return [*BEGIN, (3, died("c1", code)), (4, started("c2")), (4, restart), (40, shown)]


def hook_fails(code: int) -> list[Step]:
    """A post-start hook fails, and the container exits so when it is killed for that."""
    hooked = {"restartPolicy": "Never", "restartPolicyRules": RULES, "lifecycle": {"postStart": {}}}
    kill = killed(reason="post_start_hook", message="FailedPostStartHook")
    restart = restarted("c2", "c1", reason="post_start_hook")
    return [*BEGIN, (3, kill), (4, died("c1", code)), (5, started("c2")), (5, restart),
            (40, listed(hooked, restartPolicy="Never"))]  # fmt: skip


def events_but(lost_s: float) -> list[Step]:
    """Failures and successes in turn, and the event of each failure but one."""
    steps: list[Step] = list(BEGIN)
    for at_s in range(10, 110, 20):
        steps += [(at_s, tick("failure")), (at_s + 0.01, FAILED_EVENT)]
        steps += [(at_s + 10, tick("success"))]
    return [*(step for step in steps if step[0] != lost_s), (140, LIVE)]


def told_at_once(died_s: float) -> list[Step]:
    """Start and end of an instance come out of relists while the sync loop waits."""
    return [
        *CRASHED, (5.5, backed_off(10)), (40, started("c3")), (40, restarted("c3", "c2")),
        (died_s, died("c3", 1)), (45, started("c4")), (45, restarted("c4", "c3")), (60, listed()),
    ]  # fmt: skip


AT_NS = 1_016_100_000_000
START_FAILED = event("Failed", "Error: x")


def failed_starts(back_off_s: int, says: Body = START_FAILED) -> list[Step]:
    """A start that failed raised the back-off, and nobody knows how often."""
    return [*BEGIN, *crash(2), (16, died("c3", 1)), (16.1, says), (16.5, backed_off(back_off_s)),
            (40, listed())]  # fmt: skip


def stuck(stage: Stage, container: str | None) -> PodStageFailed:
    return PodStageFailed(
        **{**WHO, "container": container}, stage=stage, reason="x", message="no", about=None,
        is_waiting=False, first_ts_ns=AT_NS, last_ts_ns=AT_NS,
    )  # fmt: skip


ROWS: dict[str, tuple[list[Step], list[str]]] = {
    # Probes.
    "three failures in a row": ([*BEGIN, *failing(10), (30, DOWN), (40, LIVE)], ["match"]),
    "two failures in a row": ([*BEGIN, *failing(10, times=2), (20, DOWN), (40, LIVE)],
                              ["impossible"]),
    "an execution that errors does not count": ([*BEGIN, *failing(10, times=2), (30, tick("error")),
                                                 (40, tick("failure")), (40, DOWN), (60, LIVE)],
                                                ["match"]),
    "a warning is a success": ([*BEGIN, *failing(10, times=2), (30, tick("warning")),
                                (40, tick("failure")), (40, DOWN), (60, LIVE)], ["impossible"]),
    "an error ends no run of successes that are not logged": (
        [*NEW, (10, tick("failure", "readiness")), (50, tick("error", "readiness")),
         (52, SECOND_UP), (60, READY_BY_TWO)],
        ["admissible"],
    ),
    "a failure does": ([*BEGIN, (10, tick("failure", "readiness")),
                        (50, tick("failure", "readiness")), (52, SECOND_UP), (60, READY_BY_TWO)],
                       ["impossible"]),
    "the run outlives its container": ([*BEGIN, *failing(10, times=2), (22, died("c1", 1)),
                                        (23, started("c2")), (23, restarted("c2", "c1")),
                                        (30, tick("failure", container_id="c2")),
                                        (30, changed_to("failure", "success", container_id="c2")),
                                        (50, LIVE)], ["match", "match"]),
    "a missing tick": ([*BEGIN, (10, tick("success")), (20, tick("failure")), (41, tick("failure")),
                        (41, DOWN), (70, LIVE)],
                       ["liveness ticks that may be missing before 1970-01-01T00:17:21Z"]),
    "a log that begins late": ([(2, started("c1")), (10, tick("failure")),
                                (10, changed_to("failure", "success", run=None)), (50, LIVE)],
                               ["the liveness ticks before the log begins"]),
    "a worker on hold does not probe": ([*BEGIN, *failing(10), (30, DOWN), (40, tick("failure")),
                                         (60, LIVE)], ["match", "contradiction"]),
    "nor does one after a startup success, which is said once": (
        [*STARTED_ONCE, *((at, tick("failure", "startup")) for at in (20, 30, 40)), (80, STARTUP)],
        ["match", "contradiction"],
    ),
    "a stopped container is cached as failed": ([*SEEN_READY, (12, died("c1", 0)), (13, STOPPED),
                                                 (30, READY)], ["match", "match"]),
    "until its status shows the next one it is probed": (
        [*SEEN_READY, *((at, tick("failure", "readiness")) for at in (20, 30)),
         (39, died("c1", 143)), (39, started("c2")), (39, restarted("c2", "c1")),
         (40, tick("failure", "readiness")),
         (40, changed_to("failure", "success", "readiness")), (60, READY)],
        ["match"] * 3,
    ),
    "of a container that nothing shows to run no kill is owed": (
        [(1, added()), (60, changed_to("failure", "success", run=None, threshold=None)), (70, LIVE),
         (900, added("RECONCILE"))],
        ["the liveness ticks of the container"],
    ),
    "one that runs is not": ([*SEEN_READY, (13, STOPPED), (30, READY)], ["match", "impossible"]),
    "a change without a tick may be the newest container's": (
        [*BEGIN, (10, tick("success")), (12, died("c1", 1)), (13, UNSEEN_DOWN),
         (14, started("c2")), (14, died("c2", 1)), (14, restarted("c2", "c1")), (23, UNSEEN_DOWN),
         (50, LIVE)],
        ["match"] * 3,
    ),
    "but not where there is none": (
        [*BEGIN, (10, tick("success")), (12, died("c1", 1)), (13, UNSEEN_DOWN), (23, UNSEEN_DOWN),
         (50, LIVE)],
        ["match", "impossible"],
    ),
    "a startup that no line tells, where lines tell of the others": (
        [*NEW, (10, tick("success", "startup")), (10, STARTED_UP),
         (11, tick("success", "readiness")), (11, UP), (12, died("c1", 1)), (13, STOPPED),
         (14, started("c2")), (14, restarted("c2", "c1")), (20, tick("success", "startup", "c2")),
         (20, UNTOLD_UP), (60, STARTING), (70, added("RECONCILE"))],
        [*["match"] * 4, WORKED_OUT, "contradiction"],
    ),
    "successes that are not logged": ([*NEW, (10, tick("failure", "readiness")), (41, UNSEEN_UP),
                                       (60, READY_BY_THREE)], ["admissible"]),
    "what a process lists first may be older": (
        [*BEGIN, (10, tick("success", "readiness")), (10, OLDER_UP), (60, READY)],
        ["when the container began, to the second"],
    ),
    "what it lists later is not": (
        [*NEW, (10, tick("success", "readiness")), (10, OLDER_UP), (60, READY)], ["impossible"],
    ),
    "no time for successes": ([*BEGIN, (10, tick("failure", "readiness")), (21, UNSEEN_UP),
                               (60, READY_BY_THREE)], ["impossible"]),
    "a change that was not recorded": (
        [*BEGIN, *failing(10), (30, DOWN), (31, killed()), (62, died("c1", 137)),
         (63, started("c2")), (63, restarted("c2", "c1", reason="liveness_probe")),
         *((at + 60, tick("failure", container_id="c2")) for at in (10, 20, 30)), (150, LIVE)],
        ["match", "match", "match", "absent prober.ProbeTransitioned"],
    ),
    "a change without a probe": ([*BEGIN, *failing(10), (30, DOWN), (40, listed())],
                                 ["impossible", "contradiction"]),
    "a kill for a failed probe that no record shows": (
        [*BEGIN, *failing(10), (30, DOWN), (62, died("c1", 137)), (63, started("c2")),
         (63, restarted("c2", "c1")), (150, LIVE)],
        ["match", "whether it was killed for its failed probe"],
    ),
    # Other sources.
    "a tick that is too early for its period": (
        [*BEGIN, *((at, tick("success")) for at in (10, 20, 23)), (40, LIVE)], ["contradiction"]
    ),
    "a tick that follows a late one": ([*BEGIN, *((at, tick("success")) for at in (10, 29, 31)),
                                        (40, LIVE)], []),
    "readiness may be probed at once": (
        [*BEGIN, *((at, tick("failure", "readiness")) for at in (10, 20, 23)), (60, READY)], []
    ),
    "but what has long been ready, and stays the same, is not": (
        [*BEGIN, *((at, tick("success", "readiness")) for at in (*range(10, 200, 10), 193)),
         (220, READY)], ["contradiction"]
    ),
    "unless only another instance was ready": (
        [*BEGIN, *((at, tick("success", "readiness")) for at in range(10, 100, 10)),
         (101, died("c1", 1)), (102, started("c2")), (102, restarted("c2", "c1")),
         *((at, tick("error", "readiness", "c2")) for at in (*range(110, 200, 10), 193)),
         (220, READY)], ["match"]
    ),
    "an event denies a success": ([*BEGIN, (10, tick("success")), (10.01, FAILED_EVENT),
                                   (40, LIVE)], ["contradiction"]),
    "a failure without its event, where the others have theirs": (events_but(70.01),
                                                                  ["contradiction"]),
    "all events": (events_but(0), []),
    "another probe's failure without its event": (
        [*events_but(0)[:9], (45, tick("failure", "readiness")), *events_but(0)[9:-1], (140, BOTH)],
        ["contradiction"],
    ),
    # Restarts and back-off.
    "back-off doubles": ([*BEGIN, *crash(5), (400, listed())], ["match"] * 9),
    "an instance seen only at its end": ([*BEGIN, (3, died("c1", 1)), (4, died("c2", 1)),
                                          (4, restarted("c2", "c1")), (4.5, backed_off(10)),
                                          (15, died("c3", 1)), (15, restarted("c3", "c2")),
                                          (15.5, backed_off(20)), (40, listed())], ["match"] * 4),
    "an instance of which start and end are told at once": (told_at_once(40.001), ["match"] * 4),
    "one that ran longer than that": (told_at_once(42), ["match"] * 3 + ["impossible"]),
    "a start before the back-off was over": ([*CRASHED, (8, started("c3")),
                                              (8, restarted("c3", "c2")), (40, listed())],
                                             ["match", "impossible"]),
    "a back-off that was over": ([*CRASHED, (16, backed_off(10)), (40, listed())],
                                 ["match",
                                  "whether container app ran once more, which no record shows"]),
    "a back-off that nothing shows": ([*BEGIN, (3, died("c1", 1)), (3.5, backed_off(10)),
                                       (40, listed())], [HELD]),
    "back-off is forgotten after ten minutes": (
        [*BEGIN, *crash(2), *((at, added("RECONCILE")) for at in (200, 400, 600, 800)),
         (900, died("c3", 1)), (900.5, started("c4")), (900.5, restarted("c4", "c3")),
         (901, died("c4", 1)), (901.5, backed_off(10)), (950, listed())],
        ["match"] * 5,
    ),
    "a clock that steps back": ([*BEGIN, *crash(2), (14.7, ClockStepped(from_ts_ns=9, to_ts_ns=3)),
                                 (16, died("c3", 1)), (16.5, backed_off(20)), (40, listed())],
                                ["match", "match", "match", HELD]),
    "a failed start, and the known back-off": (failed_starts(20), ["match"] * 3 + [FAILED_STARTS]),
    "a failed start that the log tells": (failed_starts(80, stuck("image", "app")),
                                          ["match"] * 3 + [FAILED_STARTS]),
    "what fails before a container starts counts for no back-off": (
        failed_starts(80, stuck("sandbox", None)), ["match"] * 3 + ["impossible"]
    ),
    "nor does a probe": (failed_starts(80, event("Unhealthy", "Liveness probe failed: x")),
                         ["match"] * 3 + ["impossible"]),
    "a failed start, and a longer back-off": (failed_starts(80), ["match"] * 3 + [FAILED_STARTS]),
    "a failed start, and a shorter back-off": (failed_starts(10), ["match"] * 3 + ["impossible"]),
    "restart policy Always": (ends_and_restarts(0, listed()), ["match"]),
    "OnFailure": (ends_and_restarts(1, listed(restartPolicy="OnFailure")), ["match"]),
    "OnFailure, exit code 0": (ends_and_restarts(0, listed(restartPolicy="OnFailure")),
                               ["impossible"]),
    "Never": (ends_and_restarts(1, listed(restartPolicy="Never")), ["impossible"]),
    "a container's own rules": (ends_and_restarts(42, RULED), ["match"]),
    "no rule for that exit code": (ends_and_restarts(1, RULED), ["impossible"]),
    "its rules, after a kill": (hook_fails(42), ["match"] * 2),
    "no rule, after a kill": (hook_fails(1), ["match", "impossible"]),
    "another instance before": (ends_and_restarts(1, listed(), before="other"), ["impossible"]),
    "another reason": (ends_and_restarts(1, listed(), reason="preempted"), ["impossible"]),
    "a restart of which the end before is not recorded": (
        [(4, started("c2")), (4, restarted("c2", None, restart_count=3)), (40, listed())],
        ["the end of the container before"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "expected"), ROWS.values(), ids=list(ROWS))
def test_what_decides(steps: list[Step], expected: list[str]) -> None:
    assert said(*steps) == expected


@pytest.mark.parametrize(
    ("row", "version", "expected"),
    [
        ("readiness may be probed at once", "1.20.2", ["contradiction"]),
        ("three failures in a row", "1.99.0", ["the rules of kubelet 1.99.0"]),
        ("OnFailure, exit code 0", "1.20.2", ["impossible"]),
        ("Never", "1.20.2", ["impossible"]),
        ("nor does one after a startup success, which is said once", "1.28.0", ["match"]),
    ],
)
def test_another_version(row: str, version: str, expected: list[str]) -> None:
    assert said(*ROWS[row][0], version=version) == expected


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


def test_counts_against_ticks() -> None:
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
    # It waits for a new container: behind the log's end another process may count.
    held = [*BEGIN, (10, tick("success")), *((10 + at, body) for at, body in failing(10)),
            (40, changed_to("failure", "success")), (40.1, killed()), (42, LIVE)]  # fmt: skip
    for goes_on in ([], [(85, started("c2"))]):
        _, found = judged(*held, (80, read(0, 1)), *goes_on, (99, LIVE))
        assert [len(each.sides) for each in found] == [2] * len(goes_on)


# -- kills -----------------------------------------------------------------------------------

FAILED: list[Step] = [*BEGIN, *failing(10), (30, changed_to("failure", "success"))]


def kill(listing: PodListed, *, version: str = "1.36.2", **fields: Any) -> str:  # noqa: ANN401 # any
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


def test_what_is_not_known_of_a_probe_excuses_no_other_grace_period() -> None:
    """The line names the probe, and the spec its period."""
    hooked = listed({"livenessProbe": PROBE, "lifecycle": {"preStop": {"exec": {}}}})
    open_, denied = "unverifiable", "impossible"
    for listing, grace, verdict in ((LIVE, 30, open_), (LIVE, 29, denied), (hooked, 12, open_)):
        found, _ = judged(*BEGIN, (31, killed(grace_period_s=grace)), (99, listing))
        assert found[-1].verdict == verdict, found[-1].why


def test_a_list_from_after_the_line_of_an_end_is_late() -> None:
    """It shows what ran when it was taken; without that line the kill did not end it."""
    state = {"running": {"startedAt": "1970-01-01T00:00:02Z"}}
    runs = {"name": "app", "containerID": "containerd://c1", "state": state}
    shown = msgspec.structs.replace(LIVE, status={"containerStatuses": [runs]})
    for ends, verdict in (((), "impossible"), (((50, died("c1")),), "match")):
        found, _ = judged(*FAILED, (31, killed()), *ends, (400, shown))
        kills = [each for each in found if each.kind == "lifecycle.ContainerKilled"]
        assert kills[0].verdict == verdict, kills[0].why


def test_a_probes_own_grace_period() -> None:
    """Used since 1.22; behind a gate that is off in 1.21, unknown before."""
    own = listed({"livenessProbe": PROBE | {"terminationGracePeriodSeconds": 5}})
    for version, grace in (("1.36.2", 5), ("1.22.0", 5), ("1.21.0", 30), ("1.20.2", 30)):
        assert kill(own, version=version, grace_period_s=grace) == "match"
        assert kill(own, version=version, grace_period_s=35 - grace) == "impossible"


def test_a_pre_stop_hook_takes_time() -> None:
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
    given = [PodTerminating(**WHO, reason="killed", grace_period_s=grace) for grace in (30, 20)]
    for worker, verdict in zip(given, ("match", "impossible"), strict=True):
        kill = killed(reason="preempted", message=stop, grace_period_s=worker.grace_period_s)
        found, _ = judged(*BEGIN, (9, victim), (9.1, worker), (10, kill), (40, listed()))
        assert found[-1].verdict == verdict, found[-1].why
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
    """Ten minutes later it is absent; if the container ended, a restart is; not of a gone pod."""
    late: list[Step] = [(n * 200.0, added("RECONCILE")) for n in range(1, 6)] + [(900, LIVE)]
    assert verdicts(*FAILED, *late) == ["match", "[ContainerKilled]"]
    assert verdicts(*FAILED, (32, died("c1", 0)), *late) == ["match", "[ContainerRestarted]"]
    assert verdicts(*FAILED, (32, added("DELETE")), *late) == ["match"]
    again: list[Step] = [(32, died("c1", 1)), (33, started("c2")), (33, restarted("c2", "c1"))]
    found = verdicts(*FAILED, *again, (34, killed("c2")), (99, LIVE))
    assert found == ["match", "unverifiable", "impossible"], "the failure was the one of c1"


# -- restarts and lists --------------------------------------------------------------------


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


def test_lists_and_manifests_that_disagree() -> None:
    """About what cannot change while a pod lives, or is counted once."""
    on_node: dict[str, Any] = {
        "nodeName": "n1",
        "containers": [{"name": "app", "livenessProbe": PROBE}],
    }
    static = msgspec.structs.replace(listed(static=True, **on_node), pod="p-n1", pod_uid="u-9")
    manifest = msgspec.structs.replace(listed(), pod_uid=None, listed_by="manifest")
    again, apart = (
        [
            msgspec.structs.replace(
                listed(),
                status={
                    "containerStatuses": [
                        {
                            "name": "app",
                            "containerID": "x://c1",
                            "restartCount": count,
                            "state": {"running": {"startedAt": f"1970-01-01T00:16:5{start}Z"}},
                        }
                    ]
                },
            )
            for count, start in each
        ]
        for each in (((0, 0), (3, 0)), ((0, 0), (0, 5)))
    )
    for shown, why, says in (
        ((LIVE, listed()), "2 lists of the pod differ", "pod u-1: version 2"),
        (again, "different restarts up to the same container c1", "restartCount 3"),
        (apart, "different starts of the same container c1", "startedAt 1970-01-01T00:16:55Z"),
        ((static, manifest), "differ in livenessProbe of container app", "there"),
    ):
        _, (found,) = judged(*((10.0 + n, body) for n, body in enumerate(shown)))
        assert why in found.why
        assert says in found.sides[-1].says
    assert judged((10, static), (11, msgspec.structs.replace(manifest, pod="other")))[1] == []


@pytest.mark.parametrize(
    ("seen_s", "image", "verdict"),
    [
        (60, "x:1", "impossible"),
        (60, "x:2", "match"),
        (35, "x:1", "unverifiable"),  # the update came before, and changed nothing
        (22, "x:1", "match"),  # a list may be older than the update
    ],
)
def test_a_changed_definition_shows_in_lists(seen_s: float, image: str, verdict: str) -> None:
    """A kill for one, where lists show the same image all the time."""
    said = {
        "reason": "spec_changed",
        "message": "Container app definition changed, will be restarted",
    }
    steps: list[Step] = [
        (1, added()),
        (1, listed({"image": "x:1"})),
        (5, started("c1")),
        (20, added("UPDATE")),
        (40, killed(**said)),
        (seen_s, listed({"image": image})),
    ]
    found, _ = judged(*sorted(steps, key=lambda step: step[0]))
    assert [each.verdict for each in found] == [verdict]


def test_a_back_off_has_one_of_few_lengths() -> None:
    """Also where it is not known how often the container had been started before."""
    found, _ = judged(
        (1, listed()), (5, started("c1")), (10, died("c1", 1)), (12, backed_off(47))
    )  # fmt: skip
    assert found[-1].verdict == "impossible"
    assert "a back-off is one of 10 s, 20 s" in found[-1].why


@pytest.mark.parametrize(("again_s", "disputed"), [(12, False), (20, True)])
def test_an_instance_runs_once(again_s: float, disputed: bool) -> None:
    _, disputes = judged(
        (1, added()), (1, listed()), (10, died("c1", 0)), (again_s, started("c1")),
        (30, died("c1", 0)), (60, listed()),
    )  # fmt: skip
    assert ["runs after it was seen" in each.why for each in disputes] == [True] * disputed


@pytest.mark.parametrize("is_listed", [False, True])
@pytest.mark.parametrize(
    ("code", "held", "verdict"), [(0, True, "impossible"), (0, False, "match"), (1, True, "match")]
)
def test_a_later_sync_asks_what_a_killed_container_exited_with(
    code: int, held: bool, verdict: str, is_listed: bool
) -> None:
    """The sync that kills it starts it again whatever that was."""
    end = {"exitCode": code, "finishedAt": "1970-01-01T00:17:12Z", "containerID": "x://c1"}
    status = {"name": "app", "containerID": "x://c2", "lastState": {"terminated": end}}
    pod = listed({"livenessProbe": PROBE}, restartPolicy="OnFailure")
    if is_listed:
        pod = msgspec.structs.replace(pod, status={"containerStatuses": [status]})
    ended = died("c1", None if is_listed else code)
    steps = [*FAILED, (31, killed()), (32, ended), *[(33, backed_off(10))] * held]
    again = restarted("c2", "c1", reason="liveness_probe")
    found, disputes = judged(*steps, (44, started("c2")), (44, again), (60, pod))
    assert (found[-1].verdict, disputes) == (verdict, []), found[-1].why


@pytest.mark.parametrize(("text", "disputes"), [("output=<", 0), ('output="x"', 1)])
def test_events_of_several_lines_may_be_filtered(text: str, disputes: int) -> None:
    """Where the words stand on a line of their own, a filter by words takes the event's head."""
    failed = tick("failure", "readiness")
    steps = [*events_but(0)[:9], (45, failed), *events_but(0)[9:-1], (140, BOTH)]
    records = [
        msgspec.structs.replace(
            record, evidence=(msgspec.structs.replace(record.evidence[0], text=text),)
        )
        if record.body == failed
        else record
        for record in scene(*began("1.36.2"), *steps)
    ]
    assert sum(isinstance(each, Contradiction) for each in outcomes(records)) == disputes
