"""Evictions: the pod, the resource, the message, and the kills in between."""

from __future__ import annotations

import re

import pytest

from kubeledger.ingest.sources.facts import Fact
from kubeledger.ingest.sources.items import ApiEvent, PodList
from kubeledger.model.bodies.eviction import NodeConditionsChanged, ReclaimAttempted
from kubeledger.model.bodies.lifecycle import ContainerKilled, PodEvicted, PodRejected
from kubeledger.model.record import Evidence
from tests.ingest.pod_world import (
    at,
    container,
    facts_of,
    ingest_lines,
    klog,
    know_pod,
    of,
    pod_list,
    values,
    world,
)

UID, UID_B = "aaaaaaaa-0000-4000-8000-00000000000a", "bbbbbbbb-0000-4000-8000-00000000000b"
POD, POD_B = f"a_shop({UID})", f"b_shop({UID_B})"
FIRST = "1" * 64
LOW = "The node was low on resource: memory. "


def _manager(clock: str, message: str) -> str:
    return klog(clock, "eviction_manager.go", message)


def _event(clock: str, reason: str, message: str, kind: str = "Warning") -> str:
    keys = f'object="shop/a" kind="Pod" apiVersion="v1" type="{kind}" reason="{reason}"'
    return klog(clock, "event.go", f'"Event occurred" {keys} message="{message}"')


def _api_event(clock: str, message: str, reason: str = "Evicted") -> ApiEvent:
    """As the API server holds it: in whole seconds, with the very time in its name."""
    second = at(clock[:8])
    pod = {"kind": "Pod", "namespace": "shop", "name": "a", "uid": UID}
    event = {"involvedObject": pod, "reason": reason, "message": message, "count": 1}
    metadata = {"name": f"a.{at(clock):x}", "uid": f"{clock}/{message}"}
    return ApiEvent(second, {"metadata": metadata, **event}, Evidence(file="events.json"))


def _pod_list(clock: str, status: dict[str, str]) -> PodList:
    metadata = {"namespace": "shop", "name": "a", "uid": UID}
    return pod_list(clock, {"metadata": metadata, "status": status})


def _reported(log: list[str], *items: ApiEvent | PodList) -> list[Fact]:
    context = world()
    know_pod(context, "a", UID, namespace="shop", spec=container("c"))
    event = f'&pleg.PodLifecycleEvent{{ID:"{UID}", Type:"ContainerStarted", Data:"{FIRST}"}}'
    sandbox = f'Created PodSandbox "{"0" * 64}" for pod "{POD}"'
    begin = [
        klog("09:00:00.0", "kuberuntime_manager.go", sandbox),
        klog("09:00:01.0", "kubelet.go", f'SyncLoop (PLEG): "{POD}", event: {event}'),
    ]
    return ingest_lines(context, begin + log, items)


def _check(facts: list[Fact], *, message: str | None, lines: list[int | None]) -> None:
    (fact,) = facts_of(facts, PodEvicted)
    assert fact.ts_ns == at("10:00:00.2")
    expected = ("a", UID, "memory", message, True)
    assert values(fact.body, "pod", "pod_uid", "resource", "message", "evicted") == expected
    assert [piece.line for piece in fact.evidence] == lines
    (kill,) = facts_of(facts, ContainerKilled)
    assert values(kill.body, "container", "container_id", "reason") == ("c", FIRST, "evicted")
    assert kill.cause is fact


def test_an_eviction_in_free_text() -> None:
    """From the resource that is short to the pod's end, with the kill and the event between."""
    grace = f'Killing container "containerd://{FIRST}" with a 0 second grace period'
    log = [
        _manager("10:00:00.1", "eviction manager: must evict pod(s) to reclaim memory"),
        _manager("10:00:00.2", f"eviction manager: pods ranked for eviction: {POD}, {POD_B}"),
        klog("10:00:00.3", "kuberuntime_container.go", grace),
        _event("10:00:00.4", "Evicted", LOW),
        _event("10:00:00.5", "Killing", "Stopping container c", "Normal"),
        _manager("10:00:01.5", f"eviction manager: pod {POD} is evicted successfully"),
    ]
    _check(_reported(log), message=LOW, lines=[6, 3, 4, 8])


def test_an_eviction_in_a_structured_log_without_events() -> None:
    """At low verbosity the message is not logged; everything else is."""
    grace = (
        f'"Killing container with a grace period" pod="shop/a" podUID="{UID}" containerName="c"'
        f' containerID="containerd://{FIRST}" gracePeriod=0'
    )
    must = '"Eviction manager: must evict pod(s) to reclaim" resourceName="memory"'
    ranked = '"Eviction manager: pods ranked for eviction" pods=["shop/a","shop/b"]'
    done = '"Eviction manager: pod is evicted successfully" pod="shop/a"'
    log = [
        _manager("10:00:00.1", must),
        _manager("10:00:00.2", ranked),
        klog("10:00:00.3", "kuberuntime_container.go", grace),
        _manager("10:00:01.5", done),
    ]
    _check(_reported(log), message=None, lines=[3, 4, 6])


def test_a_critical_pod_is_left_alone() -> None:
    """The next of the ranking is evicted instead."""
    log = [
        _manager("10:00:00.1", "eviction manager: must evict pod(s) to reclaim memory"),
        _manager("10:00:00.2", f"eviction manager: pods ranked for eviction: {POD}, {POD_B}"),
        _manager("10:00:00.3", f"eviction manager: cannot evict a critical pod {POD}"),
        _manager("10:00:01.5", f"eviction manager: pod {POD_B} failed to evict timeout"),
    ]
    (body,) = of(_reported(log), PodEvicted)
    assert values(body, "pod", "resource", "evicted") == ("b", "memory", False)


def test_only_critical_pods_no_eviction() -> None:
    """Where all are critical nothing is evicted, and a later kill has another reason."""
    grace = f'Killing container "containerd://{FIRST}" with a 0 second grace period'
    log = [
        _manager("10:00:00.2", f"eviction manager: pods ranked for eviction: {POD}"),
        _manager("10:00:00.3", f"eviction manager: cannot evict a critical pod {POD}"),
        klog("10:00:09.3", "kuberuntime_container.go", grace),
    ]
    facts = _reported(log)
    assert of(facts, PodEvicted) == []
    assert [body.reason for body in of(facts, ContainerKilled)] == [None]


def test_an_eviction_for_local_storage() -> None:
    """Nothing is ranked: the event opens it, and its success is no second one."""
    over = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "
    log = [
        _event("10:00:00.2", "Evicted", over),
        _manager("10:00:01.5", f"eviction manager: pod {POD} is evicted successfully"),
    ]
    (body,) = of(_reported(log), PodEvicted)
    assert values(body, "resource", "message", "evicted") == (None, over, True)


def test_a_pod_that_is_evicted_before_it_is_seen_to_run_is_not_refused() -> None:
    """The message tells an eviction from a refusal, where the eviction manager's lines are lost."""
    log = [
        klog("10:00:00.0", "kubelet.go", f'SyncLoop (ADD, "api"): "{POD}"'),
        _event("10:00:00.2", "Evicted", LOW),
    ]
    facts = _reported(log)
    assert [body.message for body in of(facts, PodEvicted)] == [LOW]
    assert of(facts, PodRejected) == []


def test_a_pod_refused_under_pressure_is_not_evicted() -> None:
    """Its event has the same reason."""
    refused = f"Failed to admit pod {POD} - node has conditions: [MemoryPressure]"
    message = "The node had condition: [MemoryPressure]. "
    log = [
        klog("10:00:00.0", "kubelet.go", f'SyncLoop (ADD, "api"): "{POD}"'),
        _manager("10:00:00.1", refused),
        _event("10:00:00.2", "Evicted", message),
    ]
    facts = ingest_lines(world(), log)
    assert of(facts, PodEvicted) == []
    assert [body.reason for body in of(facts, PodRejected)] == ["Evicted"]


def test_a_message_that_tells_another_amount_is_not_the_reclaims() -> None:
    """What the lines of the round tell counts for it."""
    log = [
        _manager("09:59:40.0", '"Eviction manager: synchronize housekeeping"'),
        *_round("10:00:00", "900Mi", "1Gi"),
        _manager("10:00:00.3", '"Eviction manager: attempting to reclaim" resourceName="memory"'),
        _manager("10:00:00.4", '"Eviction manager: pods ranked for eviction" pods=["shop/a"]'),
        _manager(
            "10:00:00.5",
            f'"Evicting pod" pod="shop/a" podUID="{UID}" message="{LOW}Threshold quantity: 3Gi, '
            'available: 900Mi. "',
        ),
    ]
    facts = _reported(log)
    assert [body.threshold for body in of(facts, PodEvicted)] == [3 << 30]
    assert [body.threshold for body in of(facts, ReclaimAttempted)] == [1 << 30]


def test_where_the_beginnings_of_rounds_are_lost_nothing_is_known_of_earlier_ones() -> None:
    """Between two rounds that tell of a threshold there may be one in which it was not met."""
    log = [
        _manager("09:59:30.0", '"Eviction manager: synchronize housekeeping"'),
        *(line for clock in ("09:59:40", "09:59:50") for line in _round(clock, "9Mi", "1Gi")[1:]),
        *_round("10:00:00", "900Mi", "1Gi")[1:],
        _manager("10:00:00.5", f'"Evicting pod" pod="shop/a" podUID="{UID}" message="{LOW}"'),
    ]
    (body,) = of(_reported(log), PodEvicted)
    reported = values(body, "signal", "threshold", "observed", "threshold_kind", "since_ts_ns")
    assert reported == ("memory.available", 1 << 30, 900 << 20, None, None)


@pytest.mark.parametrize(
    ("reported", "signal"),
    [
        ("imagefs containerfs", "imagefs.available"),
        ("containerfs", None),
        ("imagefs", "imagefs.available"),
    ],
)
def test_a_threshold_of_containerfs_is_a_copy(reported: str, signal: str | None) -> None:
    """Where the line of the disk itself is lost, the log does not tell which one it is."""
    log = [
        klog(
            "10:00:00.1",
            "helpers.go",
            '"Eviction manager: threshold observed resource" log="thresholds - updated stats"'
            f' signal="{disk}.available" quantity="1Gi" available="900Mi"',
        )
        for disk in reported.split()
    ]
    resource = 'resourceName="ephemeral-storage"'
    log.append(_manager("10:00:00.3", f'"Eviction manager: attempting to reclaim" {resource}'))
    (body,) = of(_reported(log), ReclaimAttempted)
    assert values(body, "signal", "threshold", "observed") == (signal, 1 << 30, 900 << 20)


def test_what_the_ranking_alone_tells_of_is_no_eviction() -> None:
    """The log ends before it says whether the first pod was critical."""
    log = [
        _manager("10:00:00.1", "eviction manager: attempting to reclaim memory"),
        _manager("10:00:00.2", f"eviction manager: pods ranked for eviction: {POD}, {POD_B}"),
    ]
    facts = _reported(log)
    assert of(facts, PodEvicted) == []
    (reclaim,) = of(facts, ReclaimAttempted)
    assert [pod.pod for pod in reclaim.ranked or ()] == ["a", "b"]
    assert (reclaim.resource, reclaim.outcome) == ("memory", None)


def test_of_a_ranking_one_pod_is_evicted() -> None:
    """The one that goes right behind it; what goes later may be of a ranking that is lost."""
    log = [
        _manager("10:00:00.1", "eviction manager: attempting to reclaim memory"),
        _manager("10:00:00.2", f"eviction manager: pods ranked for eviction: {POD}, {POD_B}"),
    ]
    evicting = f'"Evicting pod" pod="shop/b" podUID="{UID_B}" message="{LOW}"'
    for clock, rank in (("10:00:00.21", 2), ("10:00:03.2", None)):
        (fact,) = facts_of(_reported([*log, _manager(clock, evicting)]), PodEvicted)
        assert values(fact.body, "pod", "rank") == ("b", rank)
        assert (fact.cause is not None) == (rank is not None)


def test_a_reclaim_without_an_eviction() -> None:
    """Deleting what is unused suffices, or nobody can go."""
    begin = _manager(
        "10:00:00.1", '"Eviction manager: attempting to reclaim" resourceName="inodes"'
    )
    enough = '"Eviction manager: able to reduce resource pressure without evicting pods."'
    nobody = '"Eviction manager: unable to evict any pods from the node"'
    for line, outcome in ((enough, "node_level"), (nobody, "nothing")):
        (reclaim,) = of(_reported([begin, _manager("10:00:02.1", line)]), ReclaimAttempted)
        assert (reclaim.resource, reclaim.outcome) == ("inodes", outcome)


def _round(clock: str, available: str, satisfied: str, conditions: str = "") -> list[str]:
    """A round in which a threshold is met, and those whose grace period is over."""
    lines = [_manager(f"{clock}.0", '"Eviction manager: synchronize housekeeping"')]
    for log, quantities in (
        ("reclaim not satisfied", "1Gi 2Gi"),
        ("grace periods satisfied", satisfied),
        ("updated stats", satisfied),
    ):
        lines += [
            klog(
                f"{clock}.1",
                "helpers.go",
                f'"Eviction manager: threshold observed resource" log="thresholds - {log}"'
                f' signal="memory.available" quantity="{quantity}" available="{available}"',
            )
            for quantity in quantities.split()
        ]
    for said in ("observed", "transition period not met") if conditions else ():
        message = f'"Eviction manager: node conditions - {said}" nodeCondition={conditions}'
        lines.append(_manager(f"{clock}.2", message))
    return lines


def test_the_threshold_is_told_by_the_rounds_before() -> None:
    """Soft is what had to wait; the message tells which of two drives the eviction."""
    pressure = '["MemoryPressure"]'
    kill = (
        f'"Evicting pod" pod="shop/a" podUID="{UID}" message="{LOW}Threshold quantity: 2Gi, '
        'available: 900Mi. "'
    )
    log = [
        _manager("09:59:40.0", '"Eviction manager: synchronize housekeeping"'),
        *_round("09:59:50", "950Mi", "1Gi", pressure),
        *_round("10:00:00", "900Mi", "1Gi 2Gi", pressure),
        _manager("10:00:00.3", '"Eviction manager: attempting to reclaim" resourceName="memory"'),
        _manager("10:00:00.4", '"Eviction manager: pods ranked for eviction" pods=["shop/a"]'),
        _manager("10:00:00.5", kill),
    ]
    facts = _reported(log)
    (body,) = of(facts, PodEvicted)
    reported = values(
        body, "signal", "threshold", "threshold_kind", "observed", "rank", "since_ts_ns"
    )
    assert reported == ("memory.available", 2 << 30, "soft", 900 << 20, 1, at("09:59:50.1"))
    (condition,) = of(facts, NodeConditionsChanged)
    assert (condition.conditions, condition.observed) == (("MemoryPressure",), ("MemoryPressure",))


@pytest.mark.parametrize(
    "lost",
    [
        "10:00:00.*periods satisfied",
        "09:59:[45].*periods satisfied",
        "10:00:00.*updated",
        "09:59:[45]",
    ],
)
def test_lost_lines_make_no_threshold_hard_or_soft(lost: str) -> None:
    """A line that says again that nothing has to be waited for; the rounds before an eviction."""
    kill = f'"Evicting pod" pod="shop/a" podUID="{UID}" message="{LOW}Threshold quantity: '
    log = [
        _manager("09:59:30.0", '"Eviction manager: synchronize housekeeping"'),
        *_round("09:59:40", "950Mi", "1Gi"),
        *_round("09:59:50", "950Mi", "1Gi"),
        *_round("10:00:00", "900Mi", "1Gi 2Gi"),
    ]
    kept = [line for line in log if not re.search(lost, line)]
    for quantity, kinds in (("1Gi", {"hard", None}), ("2Gi", {"soft", None})):
        evicting = _manager("10:00:00.5", f'{kill}{quantity}, available: 900Mi. "')
        (body,) = of(_reported([*kept, evicting]), PodEvicted)
        assert body.threshold_kind in kinds


@pytest.mark.parametrize(
    ("ends", "evicted"),
    [
        # Both waited for the same end.
        ([("10:00:03.0", "is evicted successfully")] * 2, [True, True]),
        # The hard one waits for 10 s, the soft one, with 12 s of grace, for 18 s.
        (
            [("10:00:11.5", "failed to evict"), ("10:00:12.0", "is evicted successfully")],
            [True, False],
        ),
    ],
)
def test_a_pod_chosen_again_while_it_ends(ends: list[tuple[str, str]], evicted: list[bool]) -> None:
    """The manager's loop and a notifier of a threshold wait for it: each is told the end."""
    chosen = f'"Evicting pod" pod="shop/a" podUID="{UID}" message="{LOW}Threshold quantity: '
    grace = f'"Pod terminating with grace period" pod="shop/a" podUID="{UID}" gracePeriod=12'
    log = [
        _manager("09:59:40.0", '"Eviction manager: synchronize housekeeping"'),
        *_round("09:59:50", "950Mi", "1Gi"),
        *_round("10:00:00", "900Mi", "1Gi 2Gi"),
        _manager("10:00:00.5", f'{chosen}2Gi, available: 900Mi. "'),
        klog("10:00:00.6", "kubelet.go", grace),
        *_round("10:00:01", "900Mi", "1Gi 2Gi"),
        _manager("10:00:01.4", '"Eviction manager: attempting to reclaim" resourceName="memory"'),
        _manager("10:00:01.4", '"Eviction manager: pods ranked for eviction" pods=["shop/a"]'),
        _manager("10:00:01.5", f'{chosen}1Gi, available: 900Mi. "'),
        *(_manager(clock, f'"Eviction manager: pod {how}" pod="shop/a"') for clock, how in ends),
    ]
    bodies = of(_reported(log), PodEvicted)
    assert [body.threshold_kind for body in bodies] == ["soft", "hard"]
    assert [body.evicted for body in bodies] == evicted


HARD = f"{LOW}Threshold quantity: 1Gi, available: 900Mi. "
SOFT = f"{LOW}Threshold quantity: 2Gi, available: 1000Mi. "


@pytest.mark.parametrize("ended", [HARD, SOFT])
def test_an_eviction_of_which_only_the_api_tells(ended: str) -> None:
    """Its event dates it exactly; the pod's end says whether it was this one that ended it."""
    status = {"phase": "Failed", "reason": "Evicted", "message": ended}
    context = world()
    know_pod(context, "a", UID, namespace="shop", statuses=[status])
    refused = _api_event("10:00:05.0", "The node had condition: [MemoryPressure]. ")
    event = _api_event("10:00:00.25", HARD)
    lists = [_pod_list("09:59:00.0", {"phase": "Running"}), _pod_list("10:00:40.0", status)]
    (fact,) = facts_of(ingest_lines(context, "", [*lists, event, event, refused]), PodEvicted)
    assert fact.ts_ns == at("10:00:00.25")
    assert values(fact.body, "resource", "threshold", "observed", "threshold_kind", "evicted") == (
        "memory",
        1 << 30,
        900 << 20,
        None,
        True if ended == HARD else None,
    )


def test_an_eviction_that_only_a_pod_list_shows() -> None:
    """Between two lists; a pod that the first one shows so was evicted before."""
    status = {"phase": "Failed", "reason": "Evicted", "message": HARD}
    lists = [_pod_list("10:00:00.0", {"phase": "Running"}), _pod_list("10:01:00.0", status)]
    (fact,) = facts_of(_reported([], *lists), PodEvicted)
    assert fact.ts_ns == at("10:01:00.0")
    assert values(fact.body, "resource", "observed", "evicted") == ("memory", 900 << 20, True)
    assert of(_reported([], lists[1]), PodEvicted) == []


def test_events_say_which_attempt_was_for_what() -> None:
    """At low verbosity the log tells who was chosen and what came of it, not why."""
    ranked = '"Eviction manager: pods ranked for eviction" pods=["shop/a"]'
    log = [
        _manager("10:00:00.2", ranked),
        _manager("10:00:00.4", '"Eviction manager: pod is evicted successfully" pod="shop/a"'),
        _manager("10:00:00.6", ranked),
        _manager("10:00:00.8", '"Eviction manager: pod failed to evict" pod="shop/a"'),
    ]
    events = [_api_event("10:00:00.2001", SOFT), _api_event("10:00:00.6001", HARD)]
    facts = facts_of(_reported(log, *events), PodEvicted)
    assert [fact.ts_ns for fact in facts] == [at("10:00:00.2"), at("10:00:00.6")]
    assert [values(fact.body, "message", "rank", "evicted") for fact in facts] == [
        (SOFT, 1, True),
        (HARD, 1, False),
    ]


def test_the_event_dates_an_eviction_that_only_its_end_tells_of() -> None:
    """For local storage nothing is ranked; waiting for the pod is given up 10 s later."""
    over = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "
    log = [
        klog(
            "10:00:00.3",
            "kuberuntime_container.go",
            f'"Killing container with a grace period" pod="shop/a" podUID="{UID}" gracePeriod=30',
        ),
        _manager("10:00:10.2", '"Eviction manager: pod failed to evict" pod="shop/a"'),
    ]
    (fact,) = facts_of(_reported(log, _api_event("10:00:00.2", over)), PodEvicted)
    assert fact.ts_ns == at("10:00:00.2")
    assert values(fact.body, "message", "grace_period_s", "evicted") == (over, 30, False)
