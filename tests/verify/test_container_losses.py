"""Scenes of probes, kills and restarts from which single lines were lost: nothing is impossible."""

import msgspec
import pytest

from kubeledger.model.bodies.prober import ProbeCountersRead, ProbeType
from kubeledger.model.record import Body
from tests.verify.container_scenes import (
    added,
    backed_off,
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
from tests.verify.histories import kubelet_of

Step = tuple[float, Body]
PROBE = {"periodSeconds": 10, "failureThreshold": 3, "successThreshold": 2, "timeoutSeconds": 1}
LIVE = listed({"livenessProbe": PROBE})
READY = listed({"readinessProbe": PROBE, "livenessProbe": PROBE})
BEGIN: tuple[Step, ...] = ((1, added()), (2, started("c1")))


def read(successful: int, failed: int, probe_type: ProbeType = "readiness") -> ProbeCountersRead:
    """The kubelet's counts."""
    return ProbeCountersRead(
        namespace="default", pod="p", pod_uid="u-1", container="app", probe_type=probe_type,
        successful=successful, failed=failed,
    )  # fmt: skip


def test_a_change_without_a_tick() -> None:
    steps: list[Step] = [*BEGIN, (5, tick("success")), (15, tick("failure")), (25, tick("failure"))]
    reported = changed_to("failure", "success", run=None)
    assert verdicts(*steps, (26, reported), (60, LIVE)) == ["impossible"]
    assert verdicts(*steps, (35, reported), (60, LIVE)) == ["unverifiable"]


def test_an_event_beside_which_no_tick_is_recorded() -> None:
    """Its line is lost, as that of an instance may be, and it counts for the next one."""
    failed = event("Unhealthy", "Startup probe failed: x")
    steps: list[Step] = [*BEGIN, (12, tick("success", "startup"))]
    steps += [(12, changed_to("success", "unknown", "startup", run=1, threshold=1))]
    steps += [(14, died("c1")), (60, started("c3")), (70, tick("failure", "startup", "c3"))]
    steps += [(70, failed), (70, changed_to("failure", "unknown", "startup", container_id="c3"))]
    probed = listed({"startupProbe": PROBE | {"successThreshold": 1}})
    for events, verdict in (([], "impossible"), ([(30, failed), (40, failed)], "unverifiable")):
        told = sorted([*steps, *events, (90, probed)], key=lambda step: step[0])
        assert verdicts(*told) == ["match", verdict]


def test_a_status_that_still_shows_the_instance_before() -> None:
    """A sync that waits for a hook has not seen the newest one, of which relists tell."""
    fails = {"startupProbe": {"periodSeconds": 9, "failureThreshold": 4}}
    steps: list[Step] = [(0, kubelet_of(from_start=True)), (0.1, settings()), (1, added())]
    for at, container_id in ((3, "c1"), (12, "c2"), (21, "c3")):
        steps += [(at, started(container_id)), (at, died(container_id))]
        if container_id != "c1":
            before = f"c{int(container_id[1]) - 1}"
            change = changed_to("failure", "unknown", "startup", container_id=before)
            change = msgspec.structs.replace(change, run=None, threshold=None)
            steps.append((at + 0.1, change))
    assert verdicts(*steps, (60, listed(fails))) == ["match", "match"]


@pytest.mark.parametrize("threshold", [100, 1100])
def test_a_long_run_before_the_log(threshold: int) -> None:
    """Of a long run any part may stand before the log, also where not all states are kept."""
    probe = PROBE | {"failureThreshold": threshold, "successThreshold": 1}
    reported = changed_to("failure", "unknown", "startup", run=None, threshold=threshold)
    steps: list[Step] = [(at, tick("failure", "startup")) for at in (5, 15, 25)]
    assert verdicts(*steps, (25.1, reported), (60, listed({"startupProbe": probe}))) == [
        "unverifiable"
    ]


@pytest.mark.parametrize(
    ("counts", "verdict"),
    [
        pytest.param((1, 0), "unverifiable", id="one other worker tells when it was counted"),
        pytest.param((2, 0), "unverifiable", id="one was lost"),
        pytest.param(None, "unverifiable", id="nobody counted"),
    ],
)
def test_probes_out_of_turn(counts: tuple[int, int] | None, verdict: str) -> None:
    """A failing readiness probe may run at any time; only counts tell of all its ticks."""
    steps: list[Step] = [
        *BEGIN,
        (5, tick("success", "readiness")),
        (5.1, changed_to("success", "failure", "readiness", run=2, threshold=2)),
        (15, tick("success", "readiness")),
        (25, tick("success", "readiness")),
    ]
    for at in (6, 16, 26):  # by these it is known when the kubelet was asked
        steps += [(at, tick("success"))]
    if counts is not None:
        steps += [(4, read(0, 0, "liveness")), (4, read(0, 0))]
        live = [(12, read(1, 0, "liveness")), (31, read(3, 0, "liveness"))]
        steps += [*live, (12, read(*counts)), (31, read(counts[0] + 2, counts[1]))]
    steps.sort(key=lambda step: step[0])
    found, disputes = judged(*steps, (60, READY))
    assert (found[0].verdict, disputes) == (verdict, [])
    assert verdict == "impossible" or "may be missing" in found[0].missing[0]


def test_a_back_off_told_before_any_instance_was_seen() -> None:
    """The log begins while a restart is held back: the start behind it raised the back-off."""
    steps: list[Step] = [(3, backed_off(40)), (45, started("c1")), (60, died("c1", 1))]
    found, _ = judged((1, added()), *steps, (60.5, backed_off(80)), (90, listed()))
    assert [each.verdict for each in found] == ["unverifiable", "unverifiable"]


def test_a_kill_whose_tick_is_missing() -> None:
    failed: list[Step] = [(at, tick("failure")) for at in (5, 15)]
    gone: list[Step] = [*BEGIN, *failed, (25.1, killed()), (60, LIVE)]
    assert verdicts(*gone, version="1.20.2") == ["unverifiable"]
    reported: list[Step] = [*BEGIN, *failed, (16, killed()), (60, LIVE)]
    assert verdicts(*reported, version="1.20.2") == ["impossible"]


@pytest.mark.parametrize(
    ("died_s", "first_s", "verdict"),
    [
        pytest.param(20, 40, "match", id="no time for another tick"),
        pytest.param(30, 40, "unverifiable", id="perhaps one more of the first container"),
        pytest.param(20, 52, "unverifiable", id="perhaps one more of the second"),
        pytest.param(20, 65, "unverifiable", id="a success in the second, or a lost line"),
    ],
)
def test_a_run_over_two_containers(died_s: float, first_s: float, verdict: str) -> None:
    """Without logged successes a pause hides one only while a container could be probed."""
    steps: list[Step] = [
        *BEGIN,
        *((at, tick("failure")) for at in (5, 15)),
        (died_s, died("c1", 1)),
    ]
    steps += [(38, started("c2")), (38, restarted("c2", "c1"))]
    failed = changed_to("failure", "success", container_id="c2")
    steps += [(first_s, tick("failure", container_id="c2")), (first_s, failed)]
    found, _ = judged(*steps, (first_s + 30, LIVE), version="1.20.2")
    assert found[-1].verdict == verdict


def test_a_pause_behind_another_start() -> None:
    """A worker is overdue only when its new container has run for long enough."""
    steps: list[Step] = [*BEGIN, (5, tick("success")), (15, tick("success")), (20, died("c1", 1))]
    steps += [(40, started("c2")), (40, restarted("c2", "c1")), (54.4, died("c2", 1))]
    found, _ = judged(*steps, (54.5, backed_off(10)), (84.5, LIVE))
    assert found[-1].verdict == "match"


def test_an_instance_that_only_lists_tell_of() -> None:
    """The one before is not the one that was seen last, when lists count one more."""
    counts = {"c1": 0, "c2": 1, "c3": 2}

    def lists(upto: str, at: float) -> Step:
        status = {"name": "app", "containerID": f"x://{upto}", "restartCount": counts[upto]}
        return (at, msgspec.structs.replace(listed(), status={"containerStatuses": [status]}))

    steps: list[Step] = [*BEGIN, (3, died("c1", 1)), lists("c2", 8), (20, started("c3"))]
    tail = lists("c3", 40)
    for previous, verdict in (("c2", "match"), ("c9", "impossible")):
        found, _ = judged(*steps, (20, restarted("c3", previous, restart_count=2)), tail)
        assert found[0].verdict == verdict


WAITING = listed({"readinessProbe": PROBE | {"failureThreshold": 2, "successThreshold": 1}})
AGAIN = kubelet_of(pid=2, restart=True)


def listed_since(second: int) -> Body:
    """A list that tells when container c2 began."""
    state = {"running": {"startedAt": f"1970-01-01T00:{second // 60:02}:{second % 60:02}Z"}}
    reported = {"name": "app", "containerID": "containerd://c2", "state": state}
    return msgspec.structs.replace(WAITING, status={"containerStatuses": [reported]})


@pytest.mark.parametrize(
    ("began", "before", "verdict"),
    [
        pytest.param(None, "failure", "unverifiable", id="told when first listed: failure"),
        pytest.param(None, "unknown", "unverifiable", id="told when first listed: unknown"),
        pytest.param(1050, "unknown", "match", id="long before"),
        pytest.param(1050, "failure", "unverifiable", id="long before, told otherwise"),
        pytest.param(1091, "unknown", "unverifiable", id="at the border: unknown"),
        pytest.param(1091, "failure", "unverifiable", id="at the border: failure"),
        pytest.param(1100, "failure", "match", id="after it"),
        pytest.param(1100, "unknown", "impossible", id="after it, told otherwise"),
    ],
)
def test_a_container_about_as_old_as_the_kubelet(
    began: int | None, before: str, verdict: str
) -> None:
    """What runs for ten seconds when a kubelet begins is not unready first, since 1.35."""
    change = changed_to("success", before, "readiness", container_id="c2", run=1, threshold=1)  # type: ignore[arg-type] # one of two results
    found = verdicts(
        (1, added()), (2, started("c1")), (40, died("c1")),
        (100, AGAIN), (100.1, settings()), (101, added()), (101.5, started("c2")),
        (105, tick("success", "readiness", "c2")), (105.1, change),
        (140, WAITING if began is None else listed_since(began)),
    )  # fmt: skip
    assert found == [verdict]
