"""Back-off of containers that end before anything but an event shows them."""

import pytest
from msgspec.structs import replace

from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.model.bodies.lifecycle import ContainerStarted
from kubeledger.model.bodies.node import PodStageFailed
from kubeledger.model.units import NS_PER_S
from kubeledger.verify import Finding
from kubeledger.verify.rules.containers import _nth
from tests.verify.container_scenes import (
    APP,
    WHO,
    Step,
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
)
from tests.verify.histories import kubelet_of, outcomes, scene

CREATED = event("Created", "Created container: app", warning=False)
FAILED = event("Failed", "Error: failed to create containerd task: no such file")
HEAD: tuple[Step, ...] = (
    (1, added()),
    (1, listed()),
    (1.5, ContainerStarted(**WHO, container=None, container_id="s", sandbox=True)),
)


def back_offs(*steps: Step, version: str = "1.30.14") -> list[tuple[str, object]]:
    """Verdict of each restart and back-off, with what was expected."""
    found, contradictions = judged(*HEAD, *steps, version=version)
    assert contradictions == []
    return [(each.verdict, (each.expected or {}).get("back_off_s")) for each in found]


def test_a_start_that_nothing_but_its_back_off_shows() -> None:
    """Where the log holds no events, the back-off counts a start that is told behind it."""
    assert back_offs(
        (3, died("c1", 5)), (4, backed_off(10)), (4.1, died("c2", 5)), (4.1, restarted("c2", "c1")),
        (5, backed_off(10)), (19, died("c3", 5)), (19, restarted("c3", "c2")),
        (19.1, backed_off(20)), (19.2, backed_off(40)),
    )[1:] == [("match", None), ("unverifiable", None), ("match", None), ("match", 20),
              ("impossible", 20)]  # fmt: skip


def test_a_start_that_is_told_when_the_sync_loop_goes_on() -> None:
    """While victims are killed the pod's worker goes on: its back-off counts what is told later."""
    victim = PodPreempted(
        victim_namespace="default", victim_pod="v", victim_uid="u-9", preemptor_namespace=None,
        preemptor_pod=None, preemptor_uid=None, insufficient=(), evicted=True,
    )  # fmt: skip
    assert back_offs(
        (3, started("c1")), (4, died("c1", 5)), (4.5, started("c2")), (4.5, restarted("c2", "c1")),
        (5.5, died("c2", 5)), (6, backed_off(10)), (8, victim), (40, backed_off(20)),
        (40, started("c3")), (40, restarted("c3", "c2")), (40, died("c3", 5)),
        (40.5, backed_off(20)), (58, started("c4")), (58, restarted("c4", "c3")),
        (59, died("c4", 5)), (59.1, backed_off(40)),
    )[-3:] == [("unverifiable", None), ("match", None), ("match", 40)]  # fmt: skip


def test_a_back_off_behind_a_start_that_failed() -> None:
    """It may count the start that is told next; a start that came surely later raises it."""
    failed = event("Failed", "Error: ImageInspectError")
    found = back_offs(
        (3, started("c1")), (4, died("c1", 5)), (4.5, started("c2")), (4.5, restarted("c2", "c1")),
        (5.5, died("c2", 5)), (6, backed_off(10)), (18, failed), (38.5, backed_off(40)),
        (38.5, started("c3")), (38.5, restarted("c3", "c2")), (38.5, died("c3", 5)),
        (39, backed_off(40)), (80, started("c4")), (80, restarted("c4", "c3")),
        (81, died("c4", 5)), (81.1, backed_off(80)), (81.2, backed_off(40)),
    )  # fmt: skip
    assert [verdict for verdict, _ in found[-4:]] == [
        "unverifiable",
        "match",
        "match",
        "impossible",
    ]


@pytest.mark.parametrize(("first_s", "verdict"), [(20, "unverifiable"), (130, "impossible")])
def test_starts_that_failed_and_are_told_behind_the_last(first_s: int, verdict: str) -> None:
    """One record tells of several: what they raised is held back before it stands in the log."""
    failed = PodStageFailed(
        **APP, stage="start", reason="RunContainerError", message="no such file", count=4,
        first_ts_ns=(1_000 + first_s) * NS_PER_S, last_ts_ns=1_190 * NS_PER_S,
    )  # fmt: skip
    assert back_offs(
        (3, started("c1")), (4, died("c1", 5)), (4.5, started("c2")), (4.5, restarted("c2", "c1")),
        (5.5, died("c2", 5)), (6, backed_off(10)), (120, backed_off(160)), (200, failed),
    )[-1][0] == verdict  # fmt: skip


@pytest.mark.parametrize(("created_s", "verdict"), [(900, "unverifiable"), (1_001, "impossible")])
def test_instances_before_the_one_that_was_found(created_s: int, verdict: str) -> None:
    """Of a pod that is older than the process, others may have ended: the first kill counts."""
    shown = replace(listed(), created_ts_ns=created_s * NS_PER_S)
    found, _ = judged(
        (1, added()), (1, shown), (1.5, started("c1")), (20, killed()), (21, died("c1", 143)),
        (21, started("c2")), (21, restarted("c2", "c1", reason="liveness_probe")),
        (25, died("c2", 1)), (36, started("c3")), (36, restarted("c3", "c2")), (37, died("c3", 1)),
        (37.1, backed_off(20)), version="1.30.14",
    )  # fmt: skip
    assert found[-1].verdict == verdict


def test_a_log_that_begins_as_a_container_from_before_is_probed_first() -> None:
    """Nothing was cached for it, which counts as unknown."""
    begun = kubelet_of("1.35.6", from_start=False)
    first = changed_to("success", "unknown", "readiness", run=None, threshold=None)
    steps: list[Step] = [(0, listed({"readinessProbe": {"exec": {}}})), (1, begun), (1, first)]
    verdicts = [f.verdict for f in outcomes(scene(*steps)) if isinstance(f, Finding)]
    assert verdicts == ["unverifiable"]


def test_what_the_process_before_killed_counts() -> None:
    """No sync of this process killed it, so each start of this one follows an exited instance."""
    begun = kubelet_of("1.30.14", pid=2, restart=True)
    assert back_offs(
        (3, started("c1")), (10, killed()), (12, begun), (12.1, settings()), (13, added()),
        (13.5, started("c1")), (20, died("c1", 143)), (21, started("c2")),
        (21, restarted("c2", "c1", reason="liveness_probe")), (25, died("c2", 1)),
        (36, started("c3")), (36, restarted("c3", "c2")), (37, died("c3", 1)),
        (37.1, backed_off(20)),
    )[-1] == ("match", 20)  # fmt: skip


def test_a_container_that_never_starts() -> None:
    assert back_offs(
        (2, CREATED), (2.1, FAILED), (2.2, CREATED), (2.3, FAILED), (3, died("c2", 128)),
        (3.1, backed_off(10)), (17, CREATED), (17.1, FAILED), (17.5, backed_off(20)),
        (18, died("c3", 128)), (18.1, backed_off(20)), (18.2, backed_off(80)),
    ) == [("match", 10), ("match", 20), ("match", 20), ("impossible", 20)]  # fmt: skip


def test_a_probe_that_waits_for_the_startup_probe_after_a_restart() -> None:
    """For a moment the container counts as started, by the status of the process before."""
    probes = {
        name: {"exec": {}, "periodSeconds": 5, "failureThreshold": 3}
        for name in ("livenessProbe", "startupProbe")
    }
    begun = kubelet_of("1.30.14", pid=2, restart=True)
    reported, _ = judged(
        (1, added()), (1, listed(probes)), (2, started("c1")),
        (3, tick("success", "startup")), (3.1, changed_to("success", "unknown", "startup")),
        (4, tick("success")), (9, tick("success")), (14, tick("success")),
        (20, begun), (20.1, settings()), (21, added()), (21.5, started("c1")),
        (22, tick("success")), (27.5, tick("success", "startup")),
        (27.6, changed_to("success", "unknown", "startup", run=1, threshold=1)),
        (32, tick("failure")), (37, tick("failure")), (42, tick("failure")),
        (42.1, changed_to("failure", "success")),
        version="1.30.14",
    )  # fmt: skip
    assert [each.verdict for each in reported][-1] == "match"


def test_a_new_sidecar_that_was_published_as_started() -> None:
    """Its startup worker caches a success at once, and then what every new container gets."""
    side = {"name": "app", "restartPolicy": "Always", "startupProbe": {"exec": {}}}
    seeded = (
        changed_to("success", "unknown", "startup", run=None, threshold=None),
        changed_to("unknown", "success", "startup", run=None, threshold=None),
    )
    steps: list[Step] = [
        (1, added()), (1, listed({"name": "main"}, initContainers=[side])), (2, started("c1")),
        (12, seeded[0]), (12, seeded[1]), (22, tick("success", "startup")),
        (22, changed_to("success", "unknown", "startup", run=1, threshold=1)),
    ]  # fmt: skip
    for version, verdict in (("1.35.6", "unverifiable"), ("1.35.0", "impossible")):
        reported, _ = judged(*steps, version=version)
        assert [each.verdict for each in reported][-2:] == [verdict, "match"]


def test_a_pod_that_was_deleted_while_no_kubelet_ran() -> None:
    """The process that finds it kills it at once, and no line tells of the deletion."""
    kill = killed(reason="pod_deleted", message="Stopping container app")
    begun = kubelet_of("1.30.14", pid=2, restart=True)
    head: list[Step] = [(2, started("c1")), (60, begun), (60.1, settings()), (61, added())]
    assert back_offs(*head, (61.1, kill))[-1] == ("unverifiable", None)
    assert back_offs(*head, (90, kill))[-1] == ("impossible", None)


def test_numbers_in_an_order() -> None:
    numbers = (1, 2, 3, 4, 11, 12, 13, 21, 111)
    assert [_nth(number) for number in numbers] == [
        *("1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "111th"),
    ]
