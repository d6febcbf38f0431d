"""Who was let in, who was not, and who was not asked."""

from __future__ import annotations

from typing import Any

import pytest

from kubeledger.ingest.correlate.rejections import reason_of_message
from kubeledger.model.bodies.lifecycle import PodAdmitted, PodRejected
from tests.ingest.pod_world import (
    at,
    facts_of,
    ingest_lines,
    klog,
    know_pod,
    of,
    pod_list,
    values,
    world,
)

UID = "aaaaaaaa-0000-4000-8000-00000000000a"
UID_B = "bbbbbbbb-0000-4000-8000-00000000000b"
POD = f"a_shop({UID})"
SCARCE = "Node didn't have enough resource: memory, requested: 9, used: 1, capacity: 5"


def _add(clock: str = "10:00:00.000000", pods: str = POD, source: str = "api") -> str:
    return klog(clock, "kubelet.go", f'SyncLoop (ADD, "{source}"): "{pods}"')


def _add_structured(clock: str = "10:00:00.000000", source: str = "file") -> str:
    return klog(clock, "kubelet.go", f'"SyncLoop ADD" source="{source}" pods=["shop/a"]')


def _synced(clock: str, pod: str = POD) -> str:
    message = f'computePodActions got {{KillPod:false}} for pod "{pod}"'
    return klog(clock, "kuberuntime_manager.go", message)


def _event(clock: str, reason: str, message: str, pod: str = "shop/a") -> str:
    keys = f'object="{pod}" kind="Pod" apiVersion="v1" type="Warning" reason="{reason}"'
    return klog(clock, "event.go", f'"Event occurred" {keys} message="{message}"')


def _start(clock: str) -> str:
    return klog(clock, "kubelet.go", "Starting kubelet main sync loop.")


def _refused(reason: str, message: str) -> dict[str, Any]:
    return {"phase": "Failed", "reason": reason, "message": message}


def test_admitted_at_the_first_sign_and_once() -> None:
    """Admitted at the first sign and once."""
    log = [_add(), _synced("10:00:00.200000"), _synced("10:00:09.000000")]
    (fact,) = facts_of(ingest_lines(world(), log), PodAdmitted)
    assert fact.ts_ns == at("10:00:00.2")
    assert [piece.line for piece in fact.evidence] == [1, 2]


@pytest.mark.parametrize(
    "message",
    [
        f'"SyncPod enter" pod="shop/a" podUID="{UID}"',
        '"computePodActions got for pod" podActions="x" pod="shop/a"',
        '"No sandbox for pod can be found. Need to start a new one" pod="shop/a"',
        '"SyncLoop (PLEG): event for pod" pod="shop/a" event={"ID":"x","Type":"PodSync"}',
    ],
)
def test_signs_in_structured_logs(message: str) -> None:
    """Signs in structured logs."""
    log = [_add_structured(), klog("10:00:00.100000", "kubelet.go", message)]
    (fact,) = facts_of(ingest_lines(world(), log), PodAdmitted)
    assert fact.ts_ns == at("10:00:00.1")


@pytest.mark.parametrize("message", [None, "SyncLoop (housekeeping)"])
def test_of_a_pod_that_nothing_is_heard_of_nothing_is_decided(message: str | None) -> None:
    """Of a pod that nothing is heard of nothing is decided, at the end either."""
    log = [_add(pods=f"{POD}, b_shop({UID_B})")]
    log += [klog("10:05:00.000000", "kubelet.go", message)] if message else []
    facts = ingest_lines(world(), log)
    assert not of(facts, PodAdmitted)
    assert not of(facts, PodRejected)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("kuberuntime_manager.go", f'Created PodSandbox "5a" for pod "{POD}"'),
        ("kuberuntime_manager.go", f'Container "web" ({{"docker" "1"}}) of pod {POD}: Container x'),
        ("prober.go", f'Readiness probe for "{POD}:web" failed (failure): x'),
        ("pod_workers.go", f'Error syncing pod {UID} ("{POD}"), skipping: x'),
    ],
)
def test_signs_in_the_free_text_of_other_files(file: str, message: str) -> None:
    """What only a pod that was admitted can do."""
    log = [_add(), klog("10:00:00.100000", file, message)]
    (fact,) = facts_of(ingest_lines(world(), log), PodAdmitted)
    assert fact.ts_ns == at("10:00:00.1")


def test_the_event_of_a_worker_is_a_sign() -> None:
    """The event of a worker is a sign."""
    log = [_add(), _event("10:00:00.100000", "FailedMount", "x")]
    (fact,) = facts_of(ingest_lines(world(), log), PodAdmitted)
    assert fact.ts_ns == at("10:00:00.1")


@pytest.mark.parametrize(
    ("status", "clock", "admitted"),
    [
        ({"phase": "Running"}, "10:05:00", 1),
        ({"phase": "Running"}, "10:00:01", 0),
        ({"phase": "Pending"}, "10:05:00", 0),
        ({"phase": "Pending", "containerStatuses": [{"name": "web"}]}, "10:05:00", 1),
        ({"phase": "Failed", "containerStatuses": [{"containerID": "x://1"}]}, "10:05:00", 1),
        ({"phase": "Failed"}, "10:05:00", 0),
    ],
)
def test_the_status_in_a_later_pod_list_is_a_sign(
    status: dict[str, Any], clock: str, admitted: int
) -> None:
    """Unless it may be of the time before the ADD, or says nothing."""
    shown = {"metadata": {"name": "a", "namespace": "shop", "uid": UID}, "spec": {}}
    facts = ingest_lines(world(), [_add()], [pod_list(clock, {**shown, "status": status})])
    assert [fact.ts_ns for fact in facts_of(facts, PodAdmitted)] == [at(clock)] * admitted


def test_a_line_of_the_log_decides_before_a_status() -> None:
    """A line of the log decides before a status, so the bundle says what the log says alone."""
    shown = {"metadata": {"name": "a", "namespace": "shop", "uid": UID}, "spec": {}}
    lists = [pod_list("10:00:03", {**shown, "status": {"phase": "Running"}})]
    (fact,) = facts_of(
        ingest_lines(world(), [_add(), _synced("10:00:04.200000")], lists), PodAdmitted
    )
    assert fact.ts_ns == at("10:00:04.2")


def test_several_adds_before_the_first_sign() -> None:
    """Several adds before the first sign."""
    log = [_add(), _add("10:00:00.100000", f"b_shop({UID_B})"), _synced("10:00:00.200000")]
    log.append(_synced("10:00:00.300000", f"b_shop({UID_B})"))
    assert [body.pod for body in of(ingest_lines(world(), log), PodAdmitted)] == ["a", "b"]


def test_refused_by_a_predicate_with_line_and_event() -> None:
    """Refused by a predicate with line and event."""
    line = f"Predicate failed on Pod: {POD}, for reason: {SCARCE}"
    log = [_add(), klog("10:00:00.000200", "predicate.go", line)]
    log.append(_event("10:00:00.000300", "OutOfmemory", SCARCE))
    facts = ingest_lines(world(), log)
    (fact,) = facts_of(facts, PodRejected)
    assert values(fact.body, "reason", "message") == ("OutOfmemory", SCARCE)
    assert [piece.line for piece in fact.evidence] == [2, 1, 3], "its place is the line that tells"
    assert of(facts, PodAdmitted) == []


@pytest.mark.parametrize("reason", ["OutOfmemory", "OutOfcpu"])
def test_the_line_tells_the_refusal_and_the_event_supports_it(reason: str) -> None:
    """Where they differ the kubelet's own line counts, and both are evidence."""
    line = f"Predicate failed on Pod: {POD}, for reason: {SCARCE}"
    log = [_add(), klog("10:00:00.000200", "predicate.go", line)]
    log.append(_event("10:00:00.000300", reason, "other words"))
    (fact,) = facts_of(ingest_lines(world(), log), PodRejected)
    assert values(fact.body, "reason", "message") == ("OutOfmemory", SCARCE)
    assert [piece.line for piece in fact.evidence] == [2, 1, 3]


def test_refused_for_devices_an_old_kubelet_sends_an_event_only() -> None:
    """Refused for devices an old kubelet sends an event only."""
    message = "Allocate failed due to requested number of devices, which is unexpected"
    log = [_add(), _event("10:00:00.001000", "UnexpectedAdmissionError", message)]
    (body,) = of(ingest_lines(world(), log), PodRejected)
    assert values(body, "reason", "message") == ("UnexpectedAdmissionError", message)


def test_refused_for_node_conditions() -> None:
    """Refused for node conditions."""
    line = f"Failed to admit pod {POD} - node has conditions: [DiskPressure]"
    (body,) = of(
        ingest_lines(world(), [_add(), klog("10:00:00.1", "eviction_manager.go", line)]),
        PodRejected,
    )
    assert values(body, "reason", "message") == (
        "Evicted",
        "The node had condition: [DiskPressure]. ",
    )


@pytest.mark.parametrize(
    "conditions", ["[DiskPressure PIDPressure]", '["DiskPressure","PIDPressure"]']
)
def test_refused_for_node_conditions_in_a_structured_log(conditions: str) -> None:
    """Klog wrote a list as Go prints it, later as JSON; the kubelet's message does as Go does."""
    line = f'"Failed to admit pod to node" pod="shop/a" nodeCondition={conditions}'
    log = [_add_structured(), klog("10:00:00.1", "eviction_manager.go", line)]
    (body,) = of(ingest_lines(world(), log), PodRejected)
    assert values(body, "reason", "message") == (
        "Evicted",
        "The node had condition: [DiskPressure PIDPressure]. ",
    )


def test_denied_in_a_structured_log() -> None:
    """Denied in a structured log."""
    denied = (
        f'"Pod admission denied" podUID="{UID}" pod="shop/a" reason="NodePorts"'
        ' message="Predicate NodePorts failed: taken" operation="add"'
    )
    log = [
        _add_structured(),
        klog(
            "10:00:00.000100",
            "predicate.go",
            '"Predicate failed on Pod" pod="shop/a" err="Predicate NodePorts failed: taken"',
        ),
        klog("10:00:00.000200", "allocation_manager.go", denied),
        _event("10:00:00.000300", "NodePorts", "Predicate NodePorts failed: taken"),
    ]
    (fact,) = facts_of(ingest_lines(world(), log), PodRejected)
    assert values(fact.body, "pod_uid", "reason") == (UID, "NodePorts")
    assert len(fact.evidence) == 4


def test_a_denied_resize_is_no_refusal_of_the_pod() -> None:
    """A denied resize is no refusal of the pod."""
    denied = (
        f'"Pod admission denied" podUID="{UID}" pod="shop/a" reason="OutOfcpu"'
        ' message="x" operation="resize"'
    )
    assert ingest_lines(world(), [klog("10:00:00.0", "allocation_manager.go", denied)]) == []


def test_a_warning_about_an_admitted_pod_is_no_refusal() -> None:
    """A warning about an admitted pod is no refusal."""
    log = [_add(), _synced("10:00:00.1"), _event("10:00:05.0", "Evicted", "The node was low")]
    assert of(ingest_lines(world(), log), PodRejected) == []


def test_the_status_tells_a_refusal_that_the_log_leaves_out() -> None:
    """The status tells a refusal that the log leaves out."""
    context = world()
    status = _refused("NodeAffinity", "Pod Predicate NodeAffinity failed")
    know_pod(context, "a", UID, namespace="shop", statuses=[status])
    log = [_add(), klog("10:01:00.000000", "kubelet.go", "SyncLoop (housekeeping)")]
    facts = ingest_lines(context, log)
    (fact,) = facts_of(facts, PodRejected)
    assert values(fact.body, "reason", "message") == (
        "NodeAffinity",
        "Predicate NodeAffinity failed",
    )
    assert [piece.file for piece in fact.evidence] == ["pods.json", "kubelet.log"]
    assert of(facts, PodAdmitted) == []


def test_a_restarted_kubelet_asks_again_but_not_for_what_ended() -> None:
    """A restarted kubelet asks again but not for what ended."""
    ended = {
        "metadata": {"name": "b", "namespace": "shop", "uid": UID_B},
        "status": {"phase": "Succeeded"},
    }
    both = f"{POD}, b_shop({UID_B})"
    log = [
        _start("10:00:00.000000"),
        _add("10:00:00.1", both),
        _synced("10:00:00.2"),
        _synced("10:00:00.3", f"b_shop({UID_B})"),
        _start("10:10:00.000000"),
        _add("10:10:00.1", both),
        _synced("10:10:00.2"),
        _synced("10:10:00.3", f"b_shop({UID_B})"),
    ]
    admitted = facts_of(ingest_lines(world(), log, [pod_list("10:05:00", ended)]), PodAdmitted)
    assert [(values(fact.body, "pod"), fact.ts_ns) for fact in admitted] == [
        (("a",), at("10:00:00.2")),
        (("b",), at("10:00:00.3")),
        (("a",), at("10:10:00.2")),
    ]


@pytest.mark.parametrize("word", ["ContainerStarted", "ContainerDied"])
def test_containers_of_a_former_process_are_no_sign(word: str) -> None:
    """The first look at the runtime tells of them, whatever became of the pod."""
    context = world()
    know_pod(context, "a", UID, namespace="shop", seen="09:00:00")
    know_pod(context, "b", UID_B, namespace="shop", seen="10:10:00")
    log = [_start("10:00:00.000000"), _add("10:10:00.1", f"{POD}, b_shop({UID_B})")]
    for name, uid in (("a", UID), ("b", UID_B)):
        event = f'event={{"ID":"{uid}","Type":"{word}","Data":"c"}}'
        said = f'"SyncLoop (PLEG): event for pod" pod="shop/{name}" {event}'
        log.append(klog("10:10:00.5", "kubelet.go", said))
    admitted = facts_of(ingest_lines(context, log), PodAdmitted)
    assert [values(fact.body, "pod") for fact in admitted] == [("b",)]


def test_a_refused_pod_is_not_asked_again_unless_it_is_static() -> None:
    """A refused pod is not asked again unless it is static."""
    line = f"Predicate failed on Pod: {POD}, for reason: {SCARCE}"
    log = [_start("10:00:00.0"), _add("10:00:01.0"), klog("10:00:01.1", "predicate.go", line)]
    log += [_start("10:10:00.0"), _add("10:10:01.0"), _synced("10:10:02.0")]
    assert of(ingest_lines(world(), log), PodAdmitted) == []
    static = [text.replace('"api"', '"file"') for text in log]
    assert len(of(ingest_lines(world(), static), PodAdmitted)) == 1


@pytest.mark.parametrize("reported", [True, False])
def test_a_pod_with_the_name_of_one_that_was_removed_is_another(reported: bool) -> None:
    """Its own UID is told by the admit handler from 1.28 on; it never has that of the first."""
    log = []
    for minute, uid in (("00", UID), ("01", UID_B)):
        name = f'podUID="{uid}" podNamespace="shop" podName="a"' if reported else ""
        log += [
            _add_structured(f"10:{minute}:00.0", source="api"),
            klog(f"10:{minute}:00.1", "topology_manager.go", f'"Topology Admit Handler" {name}'),
            _event(f"10:{minute}:00.2", "TopologyAffinityError", "no"),
            klog(
                f"10:{minute}:10.0", "kubelet.go", '"SyncLoop REMOVE" source="api" pods=["shop/a"]'
            ),
            klog(f"10:{minute}:10.1", "kubelet.go", f'"SyncPod exit" pod="shop/a" podUID="{uid}"'),
        ]
    rejected = of(ingest_lines(world(), log), PodRejected)
    assert [body.pod_uid for body in rejected] == ([UID, UID_B] if reported else [None, None])


def test_a_mirror_pod_is_not_asked() -> None:
    """A mirror pod is not asked."""
    log = [_add_structured("10:00:00.0"), klog("10:00:00.1", "x.go", "filler")]
    log.append(klog("10:00:00.2", "kubelet.go", f'"SyncPod enter" pod="shop/a" podUID="{UID}"'))
    log.append(_add_structured("10:00:01.0", source="api"))
    log.append(klog("10:00:01.2", "kubelet.go", f'"SyncPod enter" pod="shop/a" podUID="{UID}"'))
    assert len(of(ingest_lines(world(), log), PodAdmitted)) == 1


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (SCARCE, "OutOfmemory"),
        (SCARCE.replace("memory", "example.com/gpu"), "OutOfexample.com/gpu"),
        ("Predicate NodeAffinity failed", "NodeAffinity"),
        ("Predicate NodePorts failed: x", "NodePorts"),
        (
            "Update plugin resources failed due to x, which is unexpected.",
            "UnexpectedAdmissionError",
        ),
        (
            "Unexpected error while attempting to recover from admission failure: x",
            "UnexpectedAdmissionError",
        ),
        ("GeneralPredicates failed due to unknown reason, which is unexpected.", "UnknownReason"),
        (
            "GeneralPredicates failed due to x, which is unexpected.",
            "UnexpectedPredicateFailureType",
        ),
        (
            "SupplementalGroupsPolicy=Strict is not supported in this node",
            "SupplementalGroupsPolicyNotSupported",
        ),
        ("something else", None),
    ],
)
def test_reasons_that_go_with_messages(message: str, reason: str | None) -> None:
    """Reasons that go with messages."""
    assert reason_of_message(message) == reason


def test_the_status_line_of_an_old_kubelet_tells_a_refusal_for_devices() -> None:
    """It is the kubelet's own: an event in other words only supports it."""
    message = "Allocate failed due to no devices, which is unexpected"
    status = (
        f'Status Manager: adding pod: "{UID}", with status: (1, {{Failed [] Pod {message} '
        "UnexpectedAdmissionError    [] 2026-11-21 03:00:17 +0000 UTC [] []  []}) to "
        "podStatusChannel"
    )
    log = [_add(), klog("10:00:00.000200", "status_manager.go", status)]
    log.append(_event("10:00:00.000300", "UnexpectedAdmissionError", "other words"))
    (fact,) = facts_of(ingest_lines(world(), log), PodRejected)
    assert values(fact.body, "reason", "message") == ("UnexpectedAdmissionError", message)
    assert [piece.line for piece in fact.evidence] == [2, 1, 3]


def test_the_status_behind_a_refusal_supports_it() -> None:
    """Both lines are kept, so that their words can be compared."""
    message = "Node didn't have enough resource: cpu, requested: 900, used: 1450, capacity: 1700"
    status = (
        f'Status Manager: adding pod: "{UID}", with status: (1, {{Failed [] Pod {message} '
        "OutOfcpu    [] 2026-11-21 03:00:32 +0000 UTC [] []  []}) to podStatusChannel"
    )
    refusal = f"Predicate failed on Pod: a_shop({UID}), for reason: {message}"
    log = [_add(), klog("10:00:00.000200", "predicate.go", refusal)]
    log.append(klog("10:00:00.000300", "status_manager.go", status))
    (fact,) = facts_of(ingest_lines(world(), log), PodRejected)
    assert values(fact.body, "reason", "message") == ("OutOfcpu", message)
    assert [piece.line for piece in fact.evidence] == [2, 1, 3]


def test_a_status_line_of_an_admitted_pod_refuses_nobody() -> None:
    """A victim fails with a reason, too."""
    status = (
        f'Status Manager: adding pod: "{UID}", with status: (3, {{Failed [] Preempted in order '
        "to admit critical pod Preempting    [] 2026-11-21 03:00:17 +0000 UTC [] []  []}) to x"
    )
    log = [_add(), _synced("10:00:00.200000"), klog("10:00:01.0", "status_manager.go", status)]
    assert of(ingest_lines(world(), log), PodRejected) == []


def test_the_line_whose_words_are_taken_comes_first() -> None:
    """A newer kubelet's predicate tells the error, and who denies the pod reason and message."""
    reported = '"Failed to admit pod, unexpected error while attempting to recover from admission'
    denied = (
        f'"Pod admission denied" podUID="{UID}" pod="shop/a" reason="UnexpectedAdmissionError" '
        'message="Unexpected error while attempting to recover from admission failure: x" '
        'operation="add"'
    )
    log = [
        klog("10:00:00.000000", "kubelet.go", '"SyncLoop ADD" source="file" pods=["shop/a"]'),
        klog("10:00:00.000100", "predicate.go", f'{reported} failure" pod="shop/a" err="x"'),
        klog("10:00:00.000200", "allocation_manager.go", denied),
    ]
    (fact,) = facts_of(ingest_lines(world(), log), PodRejected)
    assert [piece.line for piece in fact.evidence] == [3, 2, 1]
