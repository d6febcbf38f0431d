"""What log, events and lists tell of a stage is one episode, and its tries are counted once."""

from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.eviction import NodeConditionsChanged
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerStarted,
    KubernetesEvent,
    PodAdmitted,
    PodListed,
    PodTerminating,
    RestartBackedOff,
)
from kubeledger.model.bodies.node import (
    KubeletStarted,
    NodeConditionChanged,
    NodeTroubled,
    PodStageFailed,
    Stage,
)
from kubeledger.model.record import Body
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.episodes.node_conditions import NodeConditions, node_conditions
from kubeledger.replay.episodes.pod_stages import StageEpisode
from tests.replay.episodes.stages import stage_episodes
from tests.replay.strategies import record
from tests.verify.histories import scene

START_S = 1_000
WEB: dict[str, Any] = {"namespace": "shop", "pod": "web", "pod_uid": "u-1"}


def failed(
    stage: Stage,
    reason: str,
    first_s: float,
    last_s: float | None = None,
    count: int = 1,
    **more: Any,  # noqa: ANN401 - fields
) -> PodStageFailed:
    first_ns, last_ns = (
        round((START_S + each) * NS_PER_S)
        for each in (first_s, first_s if last_s is None else last_s)
    )
    return PodStageFailed(
        **{**WEB, "message": "no", "stage": stage, "reason": reason, "count": count, **more},
        first_ts_ns=first_ns,
        last_ts_ns=last_ns,
    )


def event(reason: str, message: str, kind: str = "Warning", container: str | None = "c") -> Body:
    return KubernetesEvent(
        **WEB, object_kind="Pod", container=container, type=kind, reason=reason, message=message
    )


def listed(**state: object) -> Body:
    status = {"containerStatuses": [{"name": "c", "state": state}]}
    return PodListed(**WEB, spec=None, status=status, listed_by="kubelet")


def episodes(*steps: tuple[float, Body]) -> list[StageEpisode]:
    return stage_episodes(scene(*steps, start_s=START_S))


def test_log_events_and_lists_tell_one_episode() -> None:
    """Three tries: each is a line, two events, and a status that lists show as long as it is so."""
    image: dict[str, Any] = {"about": "web:1", "container": "c"}
    told = [
        (0, failed("image", "ErrImagePull", 0, **image)),
        (0.1, event("Failed", 'Failed to pull image "web:1": no')),
        (0.2, event("Failed", "Error: ErrImagePull")),
        (1, failed("image", "ImagePullBackOff", 1, is_waiting=True, **image)),
        (1, event("BackOff", 'Back-off pulling image "web:1"')),
        (5, listed(waiting={"reason": "ErrImagePull", "message": "no"})),
        (8, listed(waiting={"reason": "ErrImagePull", "message": "no"})),
        (9, listed(waiting={"reason": "ErrImagePull", "message": "no"})),
        (9.5, listed(waiting={"reason": "ErrImagePull", "message": "no"})),
        (10, failed("image", "ErrImagePull", 10, **image)),
        (10.1, event("Failed", 'Failed to pull image "web:1": no')),
        (10.2, event("Failed", "Error: ErrImagePull")),
        (20, event("Failed", 'Failed to pull image "web:1": no')),
        (20.1, event("Failed", "Error: ErrImagePull")),
    ]
    (found,) = episodes(*told)
    assert (found.stage, found.about, found.attempts, found.is_open) == ("image", "web:1", 3, True)
    (passed,) = episodes(*told, (30, event("Pulled", "Successfully pulled", "Normal")))
    assert passed.passed_ts_ns == (START_S + 30) * NS_PER_S


def test_a_count_that_comes_late_belongs_to_what_is_over() -> None:
    """How often it was is recorded after the event that shows the end."""
    (found,) = episodes(
        (0, failed("sandbox", "CreatePodSandboxError", 0)),
        (40, event("Pulling", "Pulling image", "Normal")),
        (40, failed("sandbox", "CreatePodSandboxError", 5, 35, count=6)),
    )
    assert found.attempts == 7
    assert (found.last_ts_ns, found.passed_ts_ns) == (
        (START_S + 35) * NS_PER_S,
        (START_S + 40) * NS_PER_S,
    )


def test_what_fails_again_is_a_new_episode_and_what_goes_on_is_not() -> None:
    """A failure after the end begins another; a run that goes on past the end had none."""
    sandbox: tuple[Stage, str] = "sandbox", "CreatePodSandboxError"
    again = episodes(
        (0, failed(*sandbox, 0)),
        (10, event("Pulling", "Pulling image", "Normal")),
        (20, failed(*sandbox, 20)),
    )
    assert [each.is_open for each in again] == [False, True]
    (on,) = episodes(
        (0, failed(*sandbox, 0)),
        (10, event("Pulling", "Pulling image", "Normal")),
        (30, failed(*sandbox, 5, 29, count=4)),
    )
    assert (on.is_open, on.attempts) == (True, 5)


def test_volumes_are_tried_side_by_side() -> None:
    """Each volume has its own tries: they are not added up, nor is the wait for all of them."""
    (found,) = episodes(
        (0, failed("volumes", "FailedMount", 0, 8, count=5, about="a")),
        (1, failed("volumes", "FailedMount", 1, 9, count=3, about="b")),
        (120, failed("volumes", "FailedMount", 120, about="a b")),
        (121, event("FailedMount", 'MountVolume.SetUp failed for volume "a" : no', container=None)),
    )
    assert found.attempts == 5


def test_a_wait_in_vain_for_volumes_hides_no_cause() -> None:
    """A sync that waited for its volumes says which are missing, not why; the mount did."""
    mount = 'MountVolume.SetUp failed for volume "keys" : secret "tls" not found'
    wait = "unattached volumes=[keys]: timed out waiting for the condition"
    waited = event("FailedMount", f"unmounted volumes=[keys], {wait}", container=None)
    failing = failed("volumes", "FailedMount", 0, 100, count=9, message=mount, about="keys")
    (found,) = episodes((0, failing), (123, waited))
    assert (found.message, found.last_ts_ns) == (mount, (START_S + 123) * NS_PER_S)
    (found,) = episodes((0, waited))
    assert found.message.endswith("timed out waiting for the condition")
    (found,) = episodes((0, waited), (1, failed("volumes", "FailedMount", 1, message=mount)))
    assert found.message == mount


def test_an_event_without_container_tells_of_those_that_failed() -> None:
    """1.20 logs events without the container: of one it is that one's, of two each one's."""
    never: tuple[Stage, str] = "image", "ErrImageNeverPull"
    unnamed = event("ErrImageNeverPull", "Container image is not present", container=None)
    one = episodes((0, unnamed), (0.1, failed(*never, 0.1, container="c")), (9, unnamed))
    assert [(each.container, each.attempts, each.seqs) for each in one] == [("c", 2, (1, 2, 3))]
    two = episodes(
        (0, failed(*never, 0, container="c")),
        (0, failed(*never, 0, container="d")),
        (0.1, unnamed),
        (0.2, unnamed),
    )
    assert [(each.container, each.attempts, each.seqs) for each in two] == [
        ("c", 1, (1, 3, 4)),
        ("d", 1, (2, 3, 4)),
    ]


def test_a_back_off_passes_no_start() -> None:
    """A container that never started is backed off, too; what killed it is no success."""
    start = failed("start", "RunContainerError", 0, container="c")
    again = failed("start", "RunContainerError", 30, container="c")
    back_off = RestartBackedOff(**WEB, container="c", back_off_s=10)
    died = ContainerDied(**WEB, container="c", container_id="x", sandbox=False, exit_code=128)
    found = episodes((0, start), (0.5, died), (1, back_off), (30, again), (31, back_off))
    assert [(each.stage, each.attempts, each.is_open) for each in found] == [
        ("start", 2, True),
        ("run", 1, True),
    ]


def test_a_container_that_was_killed_for_its_hook_has_passed_nothing() -> None:
    """It may end with 0 when it is told to; one that ends by itself with 0 is done."""
    hook = failed("hook", "PostStartHookError", 1, container="c")
    died = ContainerDied(**WEB, container="c", container_id="x", sandbox=False, exit_code=0)
    records = scene((1, hook), (2, died), start_s=START_S)
    assert not stage_episodes(records)[0].is_open
    killed = [records[0], msgspec.structs.replace(records[1], cause=1)]
    assert stage_episodes(killed)[0].is_open


def test_what_fails_while_a_pod_is_stopped_ends_with_it() -> None:
    """Both that which it was in, and a sandbox under way that fails after that."""
    stopped = PodTerminating(**WEB, reason="killed", grace_period_s=1)
    found = episodes(
        (0, failed("image", "ErrImagePull", 0, container="c")),
        (5, stopped),
        (6, failed("sandbox", "CreatePodSandboxError", 6)),
        (6.1, event("FailedCreatePodSandBox", "Failed to create pod sandbox: no", container=None)),
        (7, failed("stop", "KillPodSandboxError", 7)),
    )
    assert [(each.stage, each.attempts, each.is_open) for each in found] == [
        ("image", 1, False),
        ("sandbox", 1, False),
        ("stop", 1, True),
    ]


def test_an_end_that_fails_does_not_show_that_a_stage_is_passed() -> None:
    """A sandbox that is neither made nor torn down is in both; its start passes the making."""
    told = [
        (0, failed("sandbox", "CreatePodSandboxError", 0)),
        (1, failed("stop", "KillPodSandboxError", 1)),
    ]
    assert [each.is_open for each in episodes(*told)] == [True, True]
    started = ContainerStarted(**WEB, container="c", container_id="x", sandbox=False)
    assert [each.is_open for each in episodes(*told, (9, started))] == [False, True]


def test_a_pod_that_is_admitted_and_starts_again_need_not_end_any_more() -> None:
    """A reboot ended what the kubelet could not; what fails after that is a new failure."""
    stopped = PodTerminating(**WEB, reason="shutdown", grace_period_s=1)
    started = ContainerStarted(**WEB, container="c", container_id="x", sandbox=False)
    told = [(0, stopped), (1, failed("stop", "ExceededGracePeriod", 1))]
    (only,) = episodes(*told, (5, PodAdmitted(**WEB)))
    assert only.is_open
    (over,) = episodes(*told, (5, PodAdmitted(**WEB)), (9, started))
    assert over.passed_ts_ns == (START_S + 9) * NS_PER_S
    again = (6, failed("stop", "FailedKillPod", 6))
    (both,) = episodes(*told, (5, PodAdmitted(**WEB)), again, (9, started))
    assert both.is_open


def test_a_volume_line_without_namespace_gets_the_pods() -> None:
    """``pod "web" (UID: "u-1")`` is the pod that other records name whole."""
    found = episodes(
        (0, failed("volumes", "FailedMount", 0, namespace=None, about="a")),
        (9, failed("sandbox", "CreatePodSandboxError", 9)),
        (12, failed("teardown", "UnmountVolume.TearDown", 12, namespace=None, about="a")),
    )
    assert {(each.namespace, each.pod) for each in found} == {("shop", "web")}


# Conditions and troubles of the node as intervals.


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
