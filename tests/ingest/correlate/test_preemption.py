"""Victims, whom they made room for, and what came of it."""

from __future__ import annotations

import pytest

from kubeledger.model.bodies.lifecycle import ContainerKilled, PodAdmitted, PodRejected
from kubeledger.model.bodies.preemption import InsufficientResource, PodPreempted, PreemptionFailed
from tests.ingest.feeding import DATA
from tests.ingest.pod_world import (
    at,
    facts_of,
    ingest_lines,
    klog,
    know_pod,
    of,
    values,
    world,
)

PREEMPTOR = "cccccccc-0000-4000-8000-00000000000c"
VICTIM = "aaaaaaaa-0000-4000-8000-00000000000a"
OTHER = "bbbbbbbb-0000-4000-8000-00000000000b"


def _dump(name: str, uid: str, generate: str = "", link: str = "") -> str:
    return (
        f"&Pod{{ObjectMeta:{{{name} {generate} shop {link} {uid} 467 0 2026-11-21 03:00:17"
        " +0000 UTC <nil> <nil> map[] map[] [] []  []},Spec:PodSpec{},Status:PodStatus{},}"
    )


def _attempt(clock: str, victims: str, missing: str = "(res: cpu, q: 450), ") -> str:
    message = (
        f"preemption: attempting to evict pods [{victims}], in order to free up resources:"
        f" [{missing}]"
    )
    return klog(clock, "preemption.go", message)


def _add(clock: str, *pods: str) -> str:
    return klog(clock, "kubelet.go", f'SyncLoop (ADD, "api"): "{", ".join(pods)}"')


CRITICAL = f"crit_kube-system({PREEMPTOR})"


def test_victims_of_an_old_kubelet_in_their_order() -> None:
    """Victims of an old kubelet in their order."""
    dumps = _dump("a-x1", VICTIM, "a-") + " " + _dump("b", OTHER, link="/api/v1/b")
    missing = "(res: memory, q: 1048576), (res: example.com/gpu, q: 2), "
    log = [
        _add("10:00:00.0", CRITICAL),
        _attempt("10:00:00.1", dumps, missing),
        klog(
            "10:00:02.0",
            "preemption.go",
            f"preemption: pod a-x1_shop({VICTIM}) evicted successfully",
        ),
        klog(
            "10:00:09.0",
            "preemption.go",
            f"preemption: pod b_shop({OTHER}) failed to evict timeout",
        ),
    ]
    facts = facts_of(ingest_lines(world(), log), PodPreempted)
    fields = ("victim_pod", "victim_uid", "preemptor_pod", "preemptor_inferred", "evicted")
    assert [values(fact.body, *fields) for fact in facts] == [
        ("a-x1", VICTIM, "crit", True, True),
        ("b", OTHER, "crit", True, False),
    ]
    assert {fact.ts_ns for fact in facts} == {at("10:00:00.1")}
    assert values(facts[0].body, "insufficient") == (
        (
            InsufficientResource(resource="memory", quantity=1048576),
            InsufficientResource(resource="example.com/gpu", quantity=2),
        ),
    )


def test_of_several_pods_being_added_the_critical_one_preempts() -> None:
    """Of several pods being added the critical one preempts."""
    context = world()
    know_pod(context, "crit", PREEMPTOR, namespace="kube-system", spec={"priority": 2_000_000_000})
    know_pod(context, "b", OTHER, namespace="shop", spec={"priority": 0})
    log = [
        _add("10:00:00.0", f"b_shop({OTHER})", CRITICAL),
        _attempt("10:00:00.1", _dump("a", VICTIM)),
    ]
    (body,) = of(ingest_lines(context, log), PodPreempted)
    assert values(body, "preemptor_namespace", "preemptor_uid") == ("kube-system", PREEMPTOR)


def test_without_an_add_nobody_is_named() -> None:
    """Without an add nobody is named."""
    (body,) = of(ingest_lines(world(), [_attempt("10:00:00.1", _dump("a", VICTIM))]), PodPreempted)
    assert values(body, "preemptor_pod", "preemptor_inferred", "evicted") == (None, False, None)


def test_the_sync_loop_going_on_ends_the_wait() -> None:
    """The sync loop going on ends the wait."""
    log = [
        _add("10:00:00.0", CRITICAL),
        _attempt("10:00:00.1", _dump("a", VICTIM)),
        klog("10:00:05.0", "kubelet.go", "SyncLoop (housekeeping)"),
        klog("10:00:06.0", "kubelet.go", f'SyncLoop (DELETE, "api"): "x_shop({OTHER})"'),
    ]
    facts = ingest_lines(world(), log)
    assert [type(fact.body).__name__ for fact in facts[1:3]] == ["PodPreempted", "PodConfigChanged"]
    assert of(facts, PodPreempted)[0].evicted is None


def test_a_structured_line_names_both() -> None:
    """A structured line names both."""
    keys = (
        f'pod="shop/a" podUID="{VICTIM}" insufficientResources="[(res: cpu, q: 270), ]"'
        ' requestingPod="kube-system/crit"'
    )
    log = [
        klog("10:00:00.0", "preemption.go", f'"Preempting pod to free up resources" {keys}'),
        klog("10:00:02.0", "preemption.go", '"Pod evicted successfully" pod="shop/a"'),
    ]
    (body,) = of(ingest_lines(world(), log), PodPreempted)
    fields = ("victim_uid", "preemptor_pod", "preemptor_inferred", "evicted")
    assert values(body, *fields) == (VICTIM, "crit", False, True)
    assert body.insufficient == (InsufficientResource(resource="cpu", quantity=270),)


@pytest.mark.parametrize(
    ("message", "evicted"),
    [("Pod evicted successfully", True), ("Failed to evict pod", False)],
)
def test_at_low_verbosity_the_outcome_is_all_there_is(message: str, evicted: bool) -> None:
    """At low verbosity the outcome is all there is."""
    (body,) = of(
        ingest_lines(world(), [klog("10:00:02.0", "preemption.go", f'"{message}" pod="shop/a"')]),
        PodPreempted,
    )
    assert values(body, "victim_pod", "evicted", "insufficient") == ("a", evicted, ())


def test_the_list_of_the_versions_between() -> None:
    """The list of the versions between."""
    message = (
        '"Attempting to evict pods in order to free up resources" pods=[shop/a shop/b]'
        ' insufficientResources="[(res: pods, q: 1), ]"'
    )
    log = [_add("10:00:00.0", CRITICAL), klog("10:00:00.1", "preemption.go", message)]
    bodies = of(ingest_lines(world(), log), PodPreempted)
    assert [body.victim_pod for body in bodies] == ["a", "b"]
    assert {body.preemptor_pod for body in bodies} == {"crit"}


SIGN = "Preempted in order to admit critical pod"


def _sent(clock: str, pod: str = "shop/a", reason: str = "Preempting", message: str = SIGN) -> str:
    keys = f'object="{pod}" kind="Pod" apiVersion="v1" type="Warning" reason="{reason}"'
    return klog(clock, "event.go", f'"Event occurred" {keys} message="{message}"')


def _set(clock: str, reason: str = "Preempting", message: str = SIGN) -> str:
    status = f"(3, {{Failed [] {message} {reason}    [] 2026-11-21 03:00:17 +0000 UTC [] []  []}})"
    text = f'Status Manager: adding pod: "{VICTIM}", with status: {status} to podStatusChannel'
    return klog(clock, "status_manager.go", text)


def test_status_and_event_of_a_victim_tell_of_it_where_its_lines_are_lost() -> None:
    """One fact, of the first sign; the kills that follow are for it."""
    context = world("1.20.2")
    know_pod(context, "a", VICTIM, namespace="shop", statuses=[{"reason": "Preempting"}])
    log = [_add("10:00:00.0", CRITICAL), _set("10:00:00.1"), _sent("10:00:00.2")]
    (fact,) = facts_of(ingest_lines(context, log), PodPreempted)
    fields = ("victim_uid", "preemptor_pod", "preemptor_inferred", "insufficient", "evicted")
    assert values(fact.body, *fields) == (VICTIM, "crit", True, (), None)
    assert len(fact.evidence) == 2
    assert fact.ts_ns == at("10:00:00.1")


def test_the_event_may_come_before_the_line() -> None:
    """They are of two goroutines: one fact, led by the line."""
    keys = (
        f'pod="shop/a" podUID="{VICTIM}" insufficientResources="[(res: cpu, q: 270), ]"'
        ' requestingPod="kube-system/crit"'
    )
    line = klog("10:00:00.2", "preemption.go", f'"Preempting pod to free up resources" {keys}')
    context = world()
    know_pod(context, "a", VICTIM, namespace="shop")
    log = [_add("10:00:00.0", CRITICAL), _sent("10:00:00.1"), line]
    (fact,) = facts_of(ingest_lines(context, log), PodPreempted)
    assert values(fact.body, "preemptor_inferred", "evicted") == (False, None)
    assert len(values(fact.body, "insufficient")[0]) == 1
    assert "Preempting pod" in (fact.evidence[0].text or "")
    assert len(fact.evidence) == 2


def test_an_event_about_a_pod_that_lived_on_belongs_to_the_victim() -> None:
    """Lists show ``b`` running, never preempted: it is no victim, and verify compares."""
    context = world("1.20.2")
    know_pod(context, "a", VICTIM, namespace="shop", statuses=[{"phase": "Failed"}])
    know_pod(context, "b", OTHER, namespace="shop", statuses=[{"phase": "Running"}])
    log = [
        _add("10:00:00.0", CRITICAL),
        _attempt("10:00:00.1", _dump("a", VICTIM)),
        _sent("10:00:00.2", "shop/b"),
    ]
    (fact,) = facts_of(ingest_lines(context, log), PodPreempted)
    assert values(fact.body, "victim_pod") == ("a",)
    assert "shop/b" in (fact.evidence[1].text or "")
    assert not facts_of(ingest_lines(context, [log[0], log[2]]), PodPreempted)


@pytest.mark.parametrize(
    ("reason", "message", "joined"),
    [
        ("Evicted", SIGN, 2),
        ("Preempting", "something else", 2),
        ("Evicted", "The node was low on resource: memory. ", 1),
    ],
)
def test_what_joins_a_victim(reason: str, message: str, joined: int) -> None:
    """One wrong word does not hide a copy; an eviction is another matter."""
    log = [
        _add("10:00:00.0", CRITICAL),
        _attempt("10:00:00.1", _dump("a", VICTIM)),
        _set("10:00:00.2", reason, message),
    ]
    (fact,) = facts_of(ingest_lines(world("1.20.2"), log), PodPreempted)
    assert len(fact.evidence) == joined


@pytest.mark.parametrize("structured", [False, True])
def test_no_set_of_victims_leads_to_the_refusal(structured: bool) -> None:
    """No set of victims leads to the refusal."""
    error = (
        "preemption: error finding a set of pods to preempt: no set of running pods found to"
        " reclaim resources: [(res: cpu, q: 1470), ]"
    )
    text = (
        f"Failed to admit pod {CRITICAL} - Unexpected error while attempting to recover from"
        f" admission failure: {error}"
    )
    if structured:
        text = (
            '"Failed to admit pod, unexpected error while attempting to recover from admission'
            f' failure" pod="kube-system/crit" err="{error}"'
        )
    facts = ingest_lines(
        world(), [_add("10:00:00.0", CRITICAL), klog("10:00:00.1", "predicate.go", text)]
    )
    (failed,) = of(facts, PreemptionFailed)
    assert values(failed, "preemptor_pod", "error", "insufficient") == ("crit", error, ())
    (refusal,) = facts_of(facts, PodRejected)
    assert refusal.cause is not None
    assert refusal.cause.body is failed
    assert values(refusal.body, "message") == (
        f"Unexpected error while attempting to recover from admission failure: {error}",
    )


def test_recorded_preemption_of_two_pods() -> None:
    """Recorded preemption of two pods."""
    context = world("1.20.2")
    for name, uid, container_name, container_id in (
        (
            "filler-c",
            "2a34e2e8-d706-4c52-992d-899f30cb8f48",
            "c",
            "49485939fdd511545c98b03a9fdcb824564f2ac71ada2ce40071a013583526f5",
        ),
        (
            "gpu-a",
            "36aa1f99-e71c-4fcf-b3f7-3254b6127099",
            "train",
            "020c2e8e65464fdd65b3f0e75916c4809eb0954b0d82979c036e86fcf06b4ab5",
        ),
    ):
        status = {
            "name": container_name,
            "containerID": f"containerd://{container_id}",
            "restartCount": 0,
        }
        know_pod(context, name, uid, statuses=[{"containerStatuses": [status]}])
    facts = ingest_lines(context, (DATA / "kubelet/preemption-1.20.2.log").read_text())
    preempted = facts_of(facts, PodPreempted)
    assert [values(fact.body, "victim_pod", "evicted", "preemptor_pod") for fact in preempted] == [
        ("filler-c", True, "critical-1"),
        ("gpu-a", True, "critical-1"),
    ]
    kills = facts_of(facts, ContainerKilled)
    assert [values(fact.body, "container", "reason", "grace_period_s") for fact in kills] == [
        ("c", "preempted", 2),
        ("train", "preempted", 2),
    ]
    assert [fact.cause for fact in kills] == preempted
    (admitted,) = facts_of(facts, PodAdmitted)
    assert admitted.cause is preempted[1]


@pytest.mark.parametrize("lost", [" in order to free up", "resources: [", "(res: cpu"])
def test_a_line_that_is_cut_says_so(lost: str) -> None:
    """Behind the cut there may have been more victims."""
    whole = _attempt("10:00:00.1", _dump("a", VICTIM))
    log = [_add("10:00:00.0", CRITICAL), whole[: whole.index(lost)]]
    (body,) = of(ingest_lines(world(), log), PodPreempted)
    # Behind the list of victims, only amounts are lost.
    assert body.cut is (lost != "(res: cpu")
    (body,) = of(ingest_lines(world(), [_add("10:00:00.0", CRITICAL), whole]), PodPreempted)
    assert not body.cut
