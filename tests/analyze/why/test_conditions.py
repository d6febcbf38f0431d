"""What a node went through: when it was not ready and why, troubles, reclaims, its shutdown."""

from typing import Any

import msgspec
import pytest

from kubeledger.analyze.histories.history import history_of_reader
from kubeledger.analyze.why import Answer, explain_node, parse_target, with_besides
from kubeledger.model.bodies.eviction import PodSpared, RankedPod, ReclaimAttempted
from kubeledger.model.bodies.lifecycle import PodEvicted
from kubeledger.model.bodies.node import (
    KubeletExited,
    KubeletStarted,
    NodeConditionChanged,
    NodeTroubled,
    ShutdownProgressed,
)
from kubeledger.model.record import Body
from tests.verify.histories import reader, scene

BEGAN = KubeletStarted(pid=7, kubelet_version="1.30.14", version_source="log")
PLEG = "[PLEG is not healthy: pleg was last seen active 3m1.35s ago; threshold is 3m0s]"
TOLD = "(last active 3m1s before, at most 3m0s allowed)"


def active(ago: str) -> str:
    return f"PLEG is not healthy: pleg was last seen active {ago} ago; threshold is 3m0s"


def ready(status: Any, message: str | None = None) -> NodeConditionChanged:  # noqa: ANN401
    reason = "KubeletReady" if status == "True" else "KubeletNotReady"
    return NodeConditionChanged(condition="Ready", status=status, reason=reason, message=message)


def troubled(trouble: Any, message: str, at_s: int, count: int = 1) -> NodeTroubled:  # noqa: ANN401
    """It began at that second and was said so often, a second apart."""
    begin_ns = (1_000 + at_s) * 10**9
    last_ns = begin_ns + (count - 1) * 10**9
    return NodeTroubled(
        trouble=trouble, message=message, count=count, first_ts_ns=begin_ns, last_ts_ns=last_ns
    )


def answer(*steps: tuple[float, Body]) -> Answer:
    history = history_of_reader("node-t", "node-t", reader(scene(*steps)))
    found = explain_node(history, parse_target("node"), upto_ts_ns=None)
    assert found is not None
    assert all(step.evidence is not None for step in found.steps)
    return found


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([(200, ready("False", PLEG))],
         f"(since 1970-01-01T00:20:00Z): PLEG is not healthy {TOLD}"),
        ([(200, ready("False")), (200, troubled("network_not_ready", "no CNI config", 200))],
         "not ready (since 1970-01-01T00:20:00Z): its network was not ready: no CNI config"),
        (
            [(t, ready(status, "disk")) for t, status in ((200, "False"), (210, "True"))]
            + [(300, ready("Unknown", "Kubelet stopped posting node status."))],
            "not ready (2 times, last since 1970-01-01T00:21:40Z): Kubelet stopped posting",
        ),
        ([(200, troubled("registration_failed", 'nodes "n" is forbidden', 200, count=613))],
         "the node cannot be registered (since 1970-01-01T00:20:00Z, reported 613 times): "),
        ([(200, troubled("pleg_unhealthy", PLEG.strip("[]"), 200))],
         "PLEG is not healthy (since 1970-01-01T00:20:00Z): last active 3m1s before"),
        ([(200, troubled("pleg_unhealthy", active("2562047h47m16.854775807s"), 200))],
         "PLEG is not healthy (since 1970-01-01T00:20:00Z): never active so far"),
        ([(200, troubled("pleg_unhealthy", active("1x"), 200))], f": {active('1x')}"),
    ],
)  # fmt: skip
def test_what_keeps_a_node_from_being_ready(steps: list[tuple[float, Body]], says: str) -> None:
    assert says in answer((0, BEGAN), *steps).headline.partition("kubelet process")[0]


def test_of_troubles_what_keeps_pods_from_running_comes_first_then_what_lasted() -> None:
    """One that passed at once says less than the kubelet's process."""
    lease = troubled("lease_update_failed", "connection refused", 400, count=90)
    network = troubled("network_not_ready", "no CNI configuration file", 200, count=60)
    brief = troubled("pleg_unhealthy", PLEG, 600, count=2)
    late = (900, ready("True"))
    found = answer((0, BEGAN), (200, network), (400, lease), (600, brief), late)
    begin = "node node-t: its network was not ready 1970-01-01T00:20:00Z to 00:20:59Z, reported 60"
    assert found.headline.startswith(begin)
    lasting = answer((0, BEGAN), (400, lease), (600, brief), late).headline
    assert lasting.startswith("node node-t: its lease could not be renewed")
    assert answer((0, BEGAN), (600, brief), late).headline.startswith(
        "node node-t: kubelet process"
    )
    assert "PLEG" in found.sentence


@pytest.mark.parametrize("trouble", ["lease_update_failed", "storage_not_ready"])
def test_a_node_that_is_not_registered_lacks_what_hangs_on_it(trouble: str) -> None:
    """The registration leads, however long it takes; the rest are steps."""
    nodes = troubled("registration_failed", 'nodes is forbidden: User "u"', 210, count=90)
    rest = troubled(trouble, 'User "u" cannot get it', 200, count=200)
    found = answer((0, BEGAN), (200, rest), (210, nodes))
    assert found.headline.startswith("node node-t: the node cannot be registered (since ")
    assert [step.text for step in found.steps if "cannot get it" in step.text]
    alone = answer((0, BEGAN), (200, rest)).headline
    assert "cannot get it" in alone.partition("kubelet process")[0]


def test_a_step_of_a_trouble_has_the_time_at_which_it_was_said_last() -> None:
    lease = troubled("lease_update_failed", "connection refused", 200, count=3)
    lease = msgspec.structs.replace(lease, passed_ts_ns=1_290 * 10**9)
    (step,) = [each for each in answer((0, BEGAN), (200, lease)).steps if "lease" in each.text]
    assert (step.ts_ns, step.last_ts_ns) == (1_200 * 10**9, 1_202 * 10**9)


@pytest.mark.parametrize(("answered_s", "says"), [(None, "cannot be"), (3, "could not be")])
def test_a_trouble_goes_on_unless_the_server_answered(answered_s: int | None, says: str) -> None:
    api = troubled("api_unreachable", "connection refused", 200)
    passed_ns = None if answered_s is None else (1_200 + answered_s) * 10**9
    api = msgspec.structs.replace(api, passed_ts_ns=passed_ns)
    lease = troubled("lease_update_failed", "connection refused", 200)
    found = answer((0, BEGAN), (200, lease), (200, api), (210, ready("True")))
    assert f"its lease {says} renewed" in found.sentence


def test_a_trouble_that_the_next_kubelet_does_not_say_is_over() -> None:
    """Nothing shows that it passed; the process that said it ended."""
    lease = troubled("lease_update_failed", "connection refused", 200, count=90)
    assert "cannot be renewed (since" in answer((0, BEGAN), (290, lease)).headline
    anew = KubeletStarted(pid=8, kubelet_version="1.30.14", version_source="log")
    found = answer((0, BEGAN), (290, lease), (300, anew))
    assert "could not be renewed" in found.sentence


def test_where_the_node_had_no_trouble_its_pods_lead() -> None:
    """The worst of them; else that nothing is recorded, and for which time."""
    quiet = answer(
        (0, BEGAN), (9, troubled("network_not_ready", "no CNI config", 9)), (199, ready("True"))
    )
    told = with_besides(quiet, "1 stuck, 1 refused", ("a/b has not started", "a/c rejected"))
    assert told.headline == (
        "node node-t: a/b has not started; the node itself had no lasting trouble."
    )
    assert told.worst == ("a/c rejected",)
    short = with_besides(quiet, "1 trouble of the node, 1 stuck", ("a/b has not started",), True)
    assert short.headline == "node node-t: a/b has not started."
    as_bad = with_besides(quiet, "", ("a/b has not started",), True, "its network was not ready")
    assert as_bad.headline == "node node-t: its network was not ready."
    assert as_bad.worst == ("a/b has not started",)
    anew = answer((0, BEGAN), (5, KubeletExited(pid=7, reason="stopped", message="")), (9, BEGAN))
    assert with_besides(anew, "1 stuck", ("a/b has not started",)).headline == (
        "node node-t: a/b has not started; the node itself had no lasting trouble."
    )
    assert with_besides(anew, "", ()).headline == anew.headline
    nothing = with_besides(quiet, "", ()).headline
    assert nothing.startswith(
        "node node-t: nothing that went wrong is recorded, 1970-01-01T00:16:40"
    )
    died = answer((0, BEGAN), (5, KubeletExited(pid=7, reason="fatal", message="no disk")))
    told = with_besides(died, "1 kubelet death, 1 stuck", ("a/b has not started",))
    assert (told.headline, told.worst) == (died.headline, ("a/b has not started",))


def test_what_a_start_brings_with_it_comes_last() -> None:
    """Each kubelet is not ready until it has seen its runtime."""
    found = answer((0, BEGAN), (1, ready("False", "PLEG not yet")), (12, ready("True")))
    assert found.headline.startswith("node node-t: kubelet process 7")
    assert "not ready 1970-01-01T00:16:41Z to 00:16:52Z" in found.sentence


def test_the_cause_of_a_death_is_not_cut() -> None:
    why = "failed to run Kubelet: failed to start manager: " + "a layer of no interest: " * 9
    exited = KubeletExited(pid=7, reason="error", message=f"{why}the policy differs from the state")
    headline = answer((0, BEGAN), (1, exited)).headline
    assert headline.endswith("the policy differs from the state.")
    assert "failed to run Kubelet: …" in answer((0, BEGAN), (1, exited)).headline or "…" in headline


def test_reclaims_with_evictions_and_pods_that_were_spared() -> None:
    """In one clause; a step for each thing that came of them, and whom the manager ranked."""
    pod: dict[str, Any] = {"namespace": "kube-system", "pod": "etcd", "pod_uid": "e"}
    reclaim = ReclaimAttempted(resource="memory", ranked=(RankedPod(**pod),), outcome="evicting")
    evicted = PodEvicted(
        namespace="a", pod="b", pod_uid="u", resource="memory", message=None, evicted=True
    )
    none_left = ReclaimAttempted(resource="memory", outcome="nothing")
    found = answer((0, BEGAN), (5, reclaim), (6, PodSpared(**pod)), (7, evicted), (9, none_left))
    assert (
        "memory had to be reclaimed 1970-01-01T00:16:45Z to 00:16:49Z, 2 times: 1 pod was evicted, "
        "no pod could be evicted once, etcd was spared as critical"
    ) in found.sentence
    assert [step.text for step in found.steps][1:] == [
        "memory had to be reclaimed: 1 pod was evicted, etcd was spared as critical",
        "memory had to be reclaimed: no pod could be evicted",
    ]
    assert any(piece.summary.endswith("in rank: kube-system/etcd") for piece in found.evidence)


def test_a_reclaim_of_which_the_log_ends_with_the_ranking() -> None:
    ranked = tuple(RankedPod(namespace="a", pod=pod, pod_uid=None) for pod in ("b", "c"))
    reclaim = ReclaimAttempted(resource="pids", ranked=ranked)
    text = "pids had to be reclaimed at 1970-01-01T00:16:45Z: {} in rank is {}, no more is recorded"
    found = answer((0, BEGAN), (5, reclaim))
    assert text.format("first", "a/b") in found.headline
    spared = PodSpared(namespace="a", pod="b", pod_uid=None)
    found = answer((0, BEGAN), (5, reclaim), (5, spared))
    assert "b was spared as critical, next in rank is a/c, no more" in found.headline


def test_a_shutdown_by_its_phases() -> None:
    """Whom it told to end, with which grace, who had not, and its end."""
    steps: list[tuple[float, Body]] = [
        (10, ShutdownProgressed(step="detected")),
        (10, ShutdownProgressed(step="killing", priority=0, grace_period_s=20, pods=3)),
        (30, ShutdownProgressed(step="timed_out", priority=0, pods=1)),
        (31, ShutdownProgressed(step="completed")),
    ]
    assert answer((0, BEGAN), *steps).headline.startswith(
        "node node-t: the node was told to shut down at 1970-01-01T00:16:50Z, 3 pods of priority 0 "
        "told to end with 20 s, 1 pod of priority 0 had not ended in time, the kubelet let the "
        "shutdown go on at 00:17:11Z"
    )
    texts = [step.text for step in answer((0, BEGAN), *steps).steps]
    assert "3 pods of priority 0 told to end with 20 s" in texts


def test_a_node_of_which_nothing_is_known() -> None:
    found = answer((0, PodSpared(namespace="a", pod="b", pod_uid=None)))
    assert "spared" in found.headline


def test_a_pods_cause_is_not_cut_from_the_headline() -> None:
    """Rather the tries go, or the namespace."""
    quiet = answer((0, BEGAN), (199, ready("True")))
    cause = 'its volume cannot be mounted (FailedMount: secret "x" not found)'
    for length in (10, 70, 130):
        said = f"n{'a' * length}/{'b' * 50} had not started when it was ended: {cause}, 3 tries"
        headline = with_besides(quiet, "", (said,)).headline
        assert cause in headline
        assert ("3 tries" in headline, "naa" in headline) == (length == 10, length < 130)
