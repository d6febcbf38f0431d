"""Conditions, troubles and the shutdown of the node: what the lines of a log add up to."""

from collections.abc import Iterable
from typing import Any

import pytest

from kubeledger.ingest.correlate.assembler import Assembler
from kubeledger.ingest.correlate.context import BundleContext, KnownPod
from kubeledger.ingest.correlate.node import ConditionsAssembler
from kubeledger.ingest.correlate.troubles import ShutdownAssembler, TroublesAssembler
from kubeledger.ingest.sources.items import Fact, NodeObject
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S
from tests.ingest.independent_conditions import ready_changes
from tests.ingest.pieces import feed_items, feed_log

NODE = BundleContext(node="n")
NOT_READY = (
    'setters.go:1] "Node became not ready" node="n" condition={"type":"Ready","status":"False",'
    '"lastTransitionTime":"2026-11-21T10:00:05Z","reason":"KubeletNotReady","message":"PLEG is '
    'not healthy: pleg was last seen active 3m1.5s ago; threshold is 3m0s"}'
)
RECORDED = 'kubelet_node_status.go:1] "Recording event message for node" node="n" event="{}"'
SKIPPED = 'kubelet.go:1] "Skipping pod synchronization" err="{}"'
TEN_NS = 1_795_255_200 * NS_PER_S
LOOP = 'kubelet.go:1] "SyncLoop (housekeeping)"'
REFUSED = "dial tcp 10.0.0.1:6443: connect: connection refused"
LISTED = (
    "reflector.go:1] k8s.io/client-go/informers/factory.go:150: Failed to watch *v1.{}: failed to "
    'list *v1.{}: Get "https://10.0.0.1:6443/api/v1/{}?limit=500": ' + REFUSED
)


def log(lines: Iterable[tuple[float, str]], pid: int = 7) -> str:
    """Lines at seconds after ten o'clock."""
    return "".join(
        f"I1121 10:{int(at // 60):02d}:{at % 60:09.6f}    {pid} {text}\n" for at, text in lines
    )


def told(assembler: Assembler, text: str = "", items: Iterable[NodeObject] = ()) -> list[Fact]:
    facts = [*feed_log(assembler, text), *feed_items(assembler, items)]
    return [*facts, *assembler.finish(TEN_NS + 3000 * NS_PER_S)]


def brief(facts: Iterable[Fact], *fields: str) -> list[tuple[Any, ...]]:
    """Seconds after ten o'clock of each, and some fields."""
    return [
        (fact.ts_ns // NS_PER_S % 3600, *(getattr(fact.body, field) for field in fields))
        for fact in facts
    ]


def test_a_change_is_recorded_once() -> None:
    """Its event, the line with its condition and the fast update tell one; again says nothing."""
    lines = log(
        [(5.1, RECORDED.format("NodeNotReady")), (5.2, NOT_READY),
         (15.1, RECORDED.format("NodeNotReady")), (15.2, RECORDED.format("NodeSchedulable")),
         (40, RECORDED.format("NodeReady")),
         (40.1, 'kubelet_node_status.go:1] "Fast updating node status as it just became ready"')]
    )  # fmt: skip
    facts = told(ConditionsAssembler(NODE), lines)
    assert brief(facts, "condition", "status", "reason") == [
        (5, "Ready", "False", "KubeletNotReady"),
        (40, "Ready", "True", None),
    ]
    assert [len(fact.evidence) for fact in facts] == [2, 2]
    assert facts[0].body.transition_ts_ns // NS_PER_S % 3600 == 5  # type: ignore[attr-defined]
    changes = ready_changes(lines.splitlines())
    assert [change.is_ready for change in changes] == [False, True]


def test_registering_again_changes_no_pressure() -> None:
    """At each try the setters say of a new object that there is none."""
    sufficient = RECORDED.format("NodeHasSufficientMemory")
    lines = log([(1, sufficient), (8, sufficient), (15, sufficient)])
    lines += log([(30, RECORDED.format("NodeHasInsufficientMemory"))]) + log([(50, sufficient)], 8)
    facts = told(ConditionsAssembler(NODE), lines)
    assert brief(facts, "condition", "status") == [
        (1, "MemoryPressure", "False"),
        (30, "MemoryPressure", "True"),
        (50, "MemoryPressure", "False"),
    ]


def test_old_words() -> None:
    """Free text of 1.20 and before, the condition as Go prints it."""
    words = (
        "setters.go:1] Node became not ready: {Type:Ready Status:False LastHeartbeatTime:2026-11-21"
        " 10:00:03.2 +0000 UTC m=+9.1 LastTransitionTime:2026-11-21 10:00:03.2 +0000 UTC m=+9.1 "
        "Reason:KubeletNotReady Message:[container runtime is down, PLEG is not healthy: pleg was "
        "last seen active 3m0.3s ago; threshold is 3m0s]}"
    )
    lines = log(
        [
            (3.2, words),
            (9, "kubelet_node_status.go:1] Recording NodeReady event message for node n"),
        ]
    )
    facts = told(ConditionsAssembler(NODE), lines)
    assert brief(facts, "status", "reason") == [(3, "False", "KubeletNotReady"), (9, "True", None)]
    troubles = told(TroublesAssembler(NODE), lines)
    assert brief(troubles, "trouble", "message") == [
        (3, "pleg_unhealthy",
         "PLEG is not healthy: pleg was last seen active 3m0.3s ago; threshold is 3m0s"),
        (3, "runtime_down", "container runtime is down"),
        (9, "pleg_unhealthy",
         "PLEG is not healthy: pleg was last seen active 3m0.3s ago; threshold is 3m0s"),
        (9, "runtime_down", "container runtime is down"),
    ]  # fmt: skip
    assert [fact.body.passed_ts_ns is not None for fact in troubles] == [False, False, True, True]  # type: ignore[attr-defined]


def node(at_s: int, status: str, since_s: int) -> NodeObject:
    """The object as read at a second, and since when it is so."""
    condition = {
        "type": "Ready",
        "status": status,
        "lastTransitionTime": f"2026-11-21T10:00:{since_s:02d}Z",
        "reason": "Said",
    }
    ts_ns = TEN_NS + at_s * NS_PER_S
    metadata = {"metadata": {"name": "n"}, "status": {"conditions": [condition, {"type": "Other"}]}}
    return NodeObject(ts_ns, metadata, Evidence(file=f"{at_s}.json"))


def test_the_object_tells_what_no_line_did() -> None:
    """The node controller's Unknown; an object older than the last change says nothing."""
    assembler = ConditionsAssembler(NODE)
    items = [
        node(4, "True", 1),
        node(9, "True", 1),
        node(20, "Unknown", 15),
        node(25, "True", 1),
        node(30, "True", 28),
    ]
    facts = told(assembler, items=items)
    assert brief(facts, "status", "transition_ts_ns") == [
        (4, "True", TEN_NS + NS_PER_S),
        (20, "Unknown", TEN_NS + 15 * NS_PER_S),
        (30, "True", TEN_NS + 28 * NS_PER_S),
    ]


def test_a_trouble_is_counted_until_it_passes() -> None:
    """The first at once, the rest when the sync loop goes on; amounts are of the last."""
    words = "PLEG is not healthy: pleg was last seen active {} ago; threshold is 3m0s"
    said = [words.format(f"3m{n}.5s") for n in (1, 6, 11)]
    lines = log([*((n * 5, SKIPPED.format(each)) for n, each in enumerate(said)), (13, LOOP)])
    facts = told(TroublesAssembler(NODE), lines)
    assert brief(facts, "trouble", "message", "count") == [
        (0, "sync_skipped", said[0], 1),
        (0, "pleg_unhealthy", said[0], 1),
        (13, "sync_skipped", said[2], 2),
        (13, "pleg_unhealthy", said[2], 2),
    ]
    assert {fact.body.passed_ts_ns for fact in facts[2:]} == {facts[2].ts_ns}  # type: ignore[attr-defined]
    assert str(facts[2].evidence[1].text).endswith(LOOP)


def test_several_tellers_are_one_run() -> None:
    """The line, and the message of the condition: how often the one says it that says it most."""
    reason = "NetworkReady=false reason:NetworkPluginNotReady message:cni config uninitialized"
    ready = (
        'setters.go:1] "Node became not ready" node="n" condition={"type":"Ready","status":"False",'
        f'"message":"container runtime network not ready: {reason}"}}'
    )
    said = f'kubelet.go:1] "Container runtime network not ready" networkReady="{reason}"'
    lines = log([(0, said), (2, ready), (5, said), (10, said), (12, RECORDED.format("NodeReady"))])
    facts = told(TroublesAssembler(NODE), lines)
    assert brief(facts, "trouble", "message", "count") == [
        (0, "network_not_ready", "cni config uninitialized", 1),
        (12, "network_not_ready", "cni config uninitialized", 2),
    ]


def test_what_is_not_said_any_more_is_over() -> None:
    down = 'kubelet.go:1] "Container runtime sanity check failed" err="no such socket"'
    lines = log([(0, down), (5, down), (10, down), (200, LOOP)])
    assert brief(told(TroublesAssembler(NODE), lines), "count", "passed_ts_ns") == [
        (0, 1, None),
        (200, 2, None),
    ]
    lines = log([(0, down), (5, down)]) + log([(9, down)], 8)
    assert brief(told(TroublesAssembler(NODE), lines), "count") == [(0, 1), (9, 1), (9, 1)]


def test_client_go_only_tells_what_it_says() -> None:
    """Reflectors of several types are one cause; a refusal is an answer."""
    forbidden = "reflector.go:1] f.go:1: failed to list *v1.Node: nodes is forbidden: User x"
    expired = (
        'reflector.go:1] f.go:1: failed to list *v1.Node: Get "https://10.0.0.1:6443/api": x509: '
        "certificate has expired or is not yet valid"
    )
    lines = log(
        [(0, LISTED.format("Node", "Node", "nodes")),
         (1, LISTED.format("Service", "Service", "services")), (2, forbidden), (3, expired),
         (4, 'kubelet_node_status.go:1] "Successfully registered node" node="n"')]
    )  # fmt: skip
    facts = told(TroublesAssembler(NODE), lines)
    assert brief(facts, "trouble", "count") == [
        (0, "api_unreachable", 1),
        (3, "certificate", 1),
        (4, "api_unreachable", 1),
    ]
    assert facts[0].body.message == REFUSED  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("why", "passes"), [(f"Post https://10.0.0.1:6443: {REFUSED}", True), ("no signer", False)]
)
def test_a_certificate_that_nobody_signed_is_had_when_the_server_answers(
    why: str, *, passes: bool
) -> None:
    asked = "Failed while requesting a signed certificate from the control plane: cannot create: "
    lines = log(
        [
            (0, f"certificate_manager.go:1] {asked}{why}"),
            (4, 'kubelet_node_status.go:1] "Successfully registered node" node="n"'),
        ]
    )
    facts = told(TroublesAssembler(NODE), lines)
    assert [fact.body.passed_ts_ns is not None for fact in facts] == [False, *[True] * passes]  # type: ignore[attr-defined]


PODS = {
    uid: KnownPod("shop", uid, uid, 0, "api", Evidence(file="pods.json"))
    for uid in ("web", "db", "dns")
}
PODS["db"].learn({"priority": 1500}, None)
PODS["dns"].learn({"priority": 2_000_000_000}, None)
MANAGER = (
    'nodeshutdown_manager_linux.go:1] "Creating node shutdown manager" '
    'shutdownGracePeriodByPodPriority=[{"Priority":0,"ShutdownGracePeriodSeconds":17},'
    '{"Priority":1000,"ShutdownGracePeriodSeconds":9}]'
)
ANNOUNCED = (
    'nodeshutdown_manager_linux.go:1] "Shutdown manager detected new shutdown event, '
    'isNodeShuttingDownNow" event={}'
)
KILLING = (
    'nodeshutdown_manager.go:1] "Shutdown manager killing pod with gracePeriod" pod="shop/{0}" '
    'podUID="{0}" gracePeriod={1}'
)
LATE = 'nodeshutdown_manager.go:1] "Shutdown manager pod killing time out" '


def test_the_steps_of_a_shutdown() -> None:
    """Groups by priority, as the shutdown manager was made; what is said twice is one step."""
    known = {("shop", uid): [uid] for uid in PODS}
    assembler = ShutdownAssembler(BundleContext(node="n", pods=PODS, uids_by_name=known))
    text = log(
        [(0, MANAGER), (5, ANNOUNCED.format("true")),
         (5.1,
          'nodeshutdown_manager_linux.go:1] "Shutdown manager detected new shutdown event" '
          'event="shutdown"'), (5.2, KILLING.format("web", 17)),
         (22, LATE + "gracePeriod=17 priority=0"), (22.1, KILLING.format("db", 9)),
         (22.2, KILLING.format("dns", 4)),
         (30,
          'nodeshutdown_manager_linux.go:1] "Shutdown manager completed processing shutdown event, '
          'node will shutdown shortly"')]
    )  # fmt: skip
    assert brief(told(assembler, text), "step", "priority", "grace_period_s", "pods") == [
        (5, "detected", None, None, None),
        (5, "killing", 0, 17, 1),
        (22, "timed_out", 0, 17, None),
        (22, "killing", 1000, 9, 2),
        (30, "completed", None, None, None),
    ]


def test_a_shutdown_that_is_cancelled() -> None:
    """In words of 1.20; a kubelet that starts hears that there is none, and that is no step."""
    words = "nodeshutdown_manager_linux.go:1] Shutdown manager "
    detected = f"{words}detected new shutdown event, isNodeShuttingDownNow: "
    text = log(
        [(1, f"{detected}false"), (5, f"{detected}true"),
         (35, f"{words}pod killing did not complete in 30s"), (36, f"{detected}false"),
         (50, f"{words}processing shutdown event")]
    )  # fmt: skip
    facts = told(ShutdownAssembler(NODE), text)
    assert brief(facts, "step", "grace_period_s") == [
        (5, "detected", None),
        (35, "timed_out", 30),
        (36, "cancelled", None),
        (50, "detected", None),
    ]


@pytest.mark.parametrize(
    ("line", "is_ready"),
    [
        ("I1121 10:00:01.000001 7 a.go:1] Recording NodeReady event message for node n", True),
        ("I1121 10:00:01.000001 7 a.go:1] Node became not ready: {Type:Ready}", False),
        ('{"ts":1.1,"msg":"Recording event message for node","event":"NodeNotReady"}', False),
        ('I1121 10:00:01.000001 7 event.go:1] "Event occurred" object="n" kind="Node" '
         'apiVersion="" type="Normal" reason="NodeReady"', True),
    ],
)  # fmt: skip
def test_the_independent_parser(line: str, is_ready: bool) -> None:
    assert [change.is_ready for change in ready_changes([line])] == [is_ready]


def test_a_node_that_is_not_found_is_not_registered() -> None:
    """In the words of each version; what says why takes the place of that."""
    unknown = (
        'kubelet.go:1] node "n" not found',
        'kubelet.go:1] "Error getting node" err="node \\"n\\" not found"',
        'kubelet_node_status.go:1] "Error getting the current node from lister" '
        'err="node \\"n\\" not found"',
    )
    said = [(each, text) for each, text in enumerate(unknown, 1)]
    alone = told(TroublesAssembler(NODE), log(said))
    assert brief(alone, "trouble", "message", "count") == [
        (1, "registration_failed", 'node "n" not found', 1),
        (3000, "registration_failed", 'node "n" not found', 2),
    ]
    why = 'kubelet_node_status.go:1] "Unable to register node with API server" err="no" node="n"'
    both = told(TroublesAssembler(NODE), log([*said[:1], (2, why), *said[1:]]))
    assert brief(both, "message") == [(1, 'node "n" not found'), (2, "no")]
