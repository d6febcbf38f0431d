"""Conditions, troubles and the shutdown of the node: what the lines of a log add up to."""

from collections.abc import Mapping

import pytest

from kubeledger.ingest.correlate.assembler import Assembler
from kubeledger.ingest.correlate.context import BundleContext, KnownPod
from kubeledger.ingest.correlate.node import ConditionsAssembler
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.correlate.troubles import ShutdownAssembler, TroublesAssembler
from kubeledger.ingest.sources.items import Fact, NodeObject
from kubeledger.model.record import Evidence
from tests.ingest.feeding import at
from tests.ingest.independent_conditions import ready_changes
from tests.ingest.pieces import feed_items, feed_log
from tests.ingest.scenes import clock, events_of, line_of, played_out

PODS = {
    uid: KnownPod("shop", uid, uid, 0, "api", Evidence(file="pods.json"))
    for uid in ("web", "db", "dns")
}
PODS["db"].learn({"priority": 1500}, None)
PODS["dns"].learn({"priority": 2_000_000_000}, None)
ASSEMBLERS: dict[str, type[Assembler]] = {
    "conditions": ConditionsAssembler,
    "troubles": TroublesAssembler,
    "shutdown": ShutdownAssembler,
}
REFUSED = "dial tcp 10.0.0.1:6443: connect: connection refused"
PLEG = "PLEG is not healthy: pleg was last seen active {} ago; threshold is 3m0s"
PLUGIN = "NetworkReady=false reason:NetworkPluginNotReady message:cni config uninitialized"
_STATUS, _UNREADY = "kubelet_node_status.go", 'setters.go "Node became not ready" node="n"'
_SHUT, _SHUTTING = "nodeshutdown_manager_linux.go", "nodeshutdown_manager.go"
_NO_SOCKET = "dialing dial unix /run/containerd/containerd.sock: connect: connection refused"
_UNFOUND = 'err="node \\"n\\" not found"'
_GO_TIME = "2026-11-21 10:00:03.2 +0000 UTC m=+9.1"
WORDS = {
    "event": f'{_STATUS} "Recording event message for node" node="n" event="{{1}}"',
    "oldevent": f"{_STATUS} Recording {{1}} event message for node n",
    "fast": f'{_STATUS} "Fast updating node status as it just became ready"',
    "unready": f'{_UNREADY} condition={{"type":"Ready","status":"False","lastTransitionTime":'
    f'"2026-11-21T10:00:05Z","reason":"KubeletNotReady","message":"{PLEG.format("3m1.5s")}"}}',
    "oldunready": "setters.go Node became not ready: {Type:Ready Status:False LastHeartbeatTime:"
    f"{_GO_TIME} LastTransitionTime:{_GO_TIME} Reason:KubeletNotReady Message:[container runtime "
    f"is down, {PLEG.format('3m0.3s')}]}}",
    "noplugin": f'{_UNREADY} condition={{"type":"Ready","status":"False","message":"container '
    f'runtime network not ready: {PLUGIN}"}}',
    "network": f'kubelet.go "Container runtime network not ready" networkReady="{PLUGIN}"',
    "skip": 'kubelet.go "Skipping pod synchronization" err="{*}"',
    "pleg": f'kubelet.go "Skipping pod synchronization" err="{PLEG.format("{1}")}"',
    "deaf": 'remote_runtime.go "Version from runtime service failed" err="{*}"',
    "olddeaf": "remote_runtime.go Status from runtime service failed: {*}",
    "down": 'kubelet.go "Container runtime sanity check failed" err="no such socket"',
    "list": "reflector.go k8s.io/client-go/informers/factory.go:150: Failed to watch *v1.{1}: "
    'failed to list *v1.{1}: Get "https://10.0.0.1:6443/api/v1/{1}?limit=500": ' + REFUSED,
    "forbidden": "reflector.go f.go:1: failed to list *v1.Node: nodes is forbidden: User x",
    "expired": 'reflector.go f.go:1: failed to list *v1.Node: Get "https://10.0.0.1:6443/api": '
    "x509: certificate has expired or is not yet valid",
    "registered": f'{_STATUS} "Successfully registered node" node="n"',
    "unsigned": "certificate_manager.go Failed while requesting a signed certificate from the "
    "control plane: cannot create: {*}",
    "manager": f'{_SHUT} "Creating node shutdown manager" shutdownGracePeriodByPodPriority='
    '[{"Priority":0,"ShutdownGracePeriodSeconds":17},'
    '{"Priority":1000,"ShutdownGracePeriodSeconds":9}]',
    "detected": f'{_SHUT} "Shutdown manager detected new shutdown event, isNodeShuttingDownNow" '
    "event=true",
    "Detected": f'{_SHUT} "Shutdown manager detected new shutdown event" event="shutdown"',
    "killing": f'{_SHUTTING} "Shutdown manager killing pod with gracePeriod" pod="shop/{{1}}" '
    'podUID="{1}" gracePeriod={2}',
    "late": f'{_SHUTTING} "Shutdown manager pod killing time out" gracePeriod=17 priority=0',
    "completed": f'{_SHUT} "Shutdown manager completed processing shutdown event, node will '
    'shutdown shortly"',
    "olddetected": f"{_SHUT} Shutdown manager detected new shutdown event, isNodeShuttingDownNow: "
    "{1}",
    "oldlate": f"{_SHUT} Shutdown manager pod killing did not complete in 30s",
    "processing": f"{_SHUT} Shutdown manager processing shutdown event",
    "gone": 'kubelet.go node "n" not found',
    "unfound": f'kubelet.go "Error getting node" {_UNFOUND}',
    "unlisted": f'{_STATUS} "Error getting the current node from lister" {_UNFOUND}',
    "refused": f'{_STATUS} "Unable to register node with API server" err="no" node="n"',
}

DOWN, NINE = "container runtime is down", at("10:00:09")
OLD, FIRST, LAST = (PLEG.format(ago) for ago in ("3m0.3s", "3m1.5s", "3m11.5s"))
SCENES = f"""
a change is recorded once: its event, its line and the fast update tell one
    ~ conditions
    5.1 event NodeNotReady | 5.2 unready | 15.1 event NodeNotReady | 15.2 event NodeSchedulable
    40 event NodeReady | 40.1 fast
    = NodeConditionChanged @5.1 condition=Ready status=False reason=KubeletNotReady lines=1,2
    = NodeConditionChanged @40 condition=Ready status=True reason=None lines=5,6
registering again changes no pressure: each time the setters say that there is none
    ~ conditions
    1 event NodeHasSufficientMemory | 8 event NodeHasSufficientMemory
    15 event NodeHasSufficientMemory | 30 event NodeHasInsufficientMemory
    = NodeConditionChanged @1 condition=MemoryPressure status=False
    = NodeConditionChanged @30 condition=MemoryPressure status=True
another process says it anew
    ~ conditions
    30 event NodeHasInsufficientMemory | 50 process:event NodeHasSufficientMemory
    = NodeConditionChanged @30 condition=MemoryPressure status=True
    = NodeConditionChanged @50 condition=MemoryPressure status=False
free text of 1.20 and before, the condition as Go prints it
    ~ conditions
    3.2 oldunready | 9 oldevent NodeReady
    = NodeConditionChanged @3.2 status=False reason=KubeletNotReady
    = NodeConditionChanged @9 status=True reason=None
and the troubles in it
    ~ troubles
    3.2 oldunready | 9 oldevent NodeReady
    = NodeTroubled @3.2 trouble=pleg_unhealthy passed_ts_ns=None message={OLD}
    = NodeTroubled @3.2 trouble=runtime_down passed_ts_ns=None message={DOWN}
    = NodeTroubled @9 trouble=pleg_unhealthy passed_ts_ns={NINE} message={OLD}
    = NodeTroubled @9 trouble=runtime_down passed_ts_ns={NINE} message={DOWN}
the object tells what no line did; one older than the last change says nothing
    ~ conditions
    4 object True 1 | 9 object True 1 | 20 object Unknown 15 | 25 object True 1 | 30 object True 28
    = NodeConditionChanged @4 status=True transition_ts_ns={at("10:00:01")}
    = NodeConditionChanged @20 status=Unknown transition_ts_ns={at("10:00:15")}
    = NodeConditionChanged @30 status=True transition_ts_ns={at("10:00:28")}
a trouble is counted until it passes: the first at once, the rest when the sync loop goes on
    ~ troubles
    0 pleg 3m1.5s | 5 pleg 3m6.5s | 10 pleg 3m11.5s | 13 turn
    = NodeTroubled @0 trouble=sync_skipped count=1 message={FIRST}
    = NodeTroubled @0 trouble=pleg_unhealthy count=1 message={FIRST}
    = NodeTroubled @13 trouble=sync_skipped count=2 lines=3,4 message={LAST}
    = NodeTroubled @13 trouble=pleg_unhealthy count=2 lines=3,4 message={LAST}
several tellers are one run: as often as the one says it that says it most
    ~ troubles
    0 network | 2 noplugin | 5 network | 10 network | 12 event NodeReady
    = NodeTroubled @0 trouble=network_not_ready count=1 message=cni config uninitialized
    = NodeTroubled @12 trouble=network_not_ready count=2 message=cni config uninitialized
what is not said any more is over
    ~ troubles
    0 down | 5 down | 10 down | 200 turn
    = NodeTroubled @0 count=1 passed_ts_ns=None
    = NodeTroubled @200 count=2 passed_ts_ns=None
a runtime that is away, by what is asked of it, until nothing is said of it for some seconds
    ~ troubles
    0 deaf {_NO_SOCKET} | 1 turn | 2 olddeaf {_NO_SOCKET} | 4 deaf {_NO_SOCKET} | 8 turn | 9.5 turn
    = NodeTroubled @0 trouble=runtime_down count=1 passed_ts_ns=None
    = NodeTroubled @9.5 trouble=runtime_down count=2 passed_ts_ns={at("10:00:09.5")}
and one that answers with an error is there
    ~ troubles
    0 deaf no such version | 1 olddeaf not found
    = !NodeTroubled
what a process says ends with it
    ~ troubles
    0 down | 5 down | 9 process:down
    = NodeTroubled @0 count=1
    = NodeTroubled @9 count=1
    = NodeTroubled @9 count=1
client-go only tells what it says: reflectors are one cause; a refusal is an answer
    ~ troubles
    0 list Node | 1 list Service | 2 forbidden | 3 expired | 4 registered
    = NodeTroubled @0 trouble=api_unreachable count=1 message={REFUSED}
    = NodeTroubled @3 trouble=certificate count=1
    = NodeTroubled @4 trouble=api_unreachable count=1
a certificate that nobody signed is had when the server answers
    ~ troubles
    0 unsigned Post https://10.0.0.1:6443: {REFUSED} | 4 registered
    = NodeTroubled @0 passed_ts_ns=None
    = NodeTroubled @4 passed_ts_ns={at("10:00:04")}
not where the server had refused it
    ~ troubles
    0 unsigned no signer | 4 registered
    = NodeTroubled @0 passed_ts_ns=None
the steps of a shutdown: groups by priority, as the manager was made; said twice is one step
    ~ shutdown
    0 manager | 5 detected | 5.1 Detected | 5.2 killing web 17 | 22 late | 22.1 killing db 9
    22.2 killing dns 4 | 30 completed
    = ShutdownProgressed @5 step=detected priority=None grace_period_s=None pods=None
    = ShutdownProgressed @5.2 step=killing priority=0 grace_period_s=17 pods=1
    = ShutdownProgressed @22 step=timed_out priority=0 grace_period_s=17 pods=None
    = ShutdownProgressed @22.1 step=killing priority=1000 grace_period_s=9 pods=2
    = ShutdownProgressed @30 step=completed priority=None grace_period_s=None pods=None
a shutdown that is cancelled, in words of 1.20; at a start there is none, which is no step
    ~ shutdown
    1 olddetected false | 5 olddetected true | 35 oldlate | 36 olddetected false | 50 processing
    = ShutdownProgressed @5 step=detected grace_period_s=None
    = ShutdownProgressed @35 step=timed_out grace_period_s=30
    = ShutdownProgressed @36 step=cancelled grace_period_s=None
    = ShutdownProgressed @50 step=detected grace_period_s=None
a node that is not found is not registered, in the words of each version
    ~ troubles
    1 gone | 2 unfound | 3 unlisted
    = NodeTroubled @1 trouble=registration_failed count=1 message=node "n" not found
    = NodeTroubled @3000 trouble=registration_failed count=2 message=node "n" not found
what says why takes the place of that
    ~ troubles
    1 gone | 2 refused | 2.5 unfound | 3 unlisted
    = NodeTroubled @1 message=node "n" not found
    = NodeTroubled @2 message=no
"""


def play(files: list[str], rows: list[str], words: Mapping[str, str]) -> list[Fact]:
    """The facts of one assembler; ``process:WORD`` is a line of another process."""
    known = {("shop", uid): [uid] for uid in PODS}
    node = BundleContext(node="n", pods=PODS, uids_by_name=known)
    assembler = ASSEMBLERS[files[0]](Registers(node))
    facts, log = list[Fact](), ""
    for time, word, text in events_of(rows, words):
        if word == "object":
            facts += feed_items(assembler, [node_object(at(time), *text.split())])
            continue
        line = line_of(time, word.removeprefix("process:"), text, words)
        log += (line.replace(" 4242 ", " 4243 ") if word.startswith("process:") else line) + "\n"
    return [*facts, *feed_log(assembler, log), *assembler.finish(at(clock(3000)))]


def node_object(ts_ns: int, status: str, since_s: str) -> NodeObject:
    """The object as read at a time, and since which second it is so."""
    since = f"2026-11-21T10:00:{int(since_s):02d}Z"
    ready = {"type": "Ready", "status": status, "lastTransitionTime": since, "reason": "Said"}
    status_of = {"conditions": [ready, {"type": "Other"}]}
    shown = {"metadata": {"name": "n"}, "status": status_of}
    return NodeObject(ts_ns, shown, Evidence(file=f"{ts_ns}.json"))


test_scene = played_out(SCENES, WORDS, play)


@pytest.mark.parametrize(
    ("line", "is_ready"),
    [
        ("I1121 10:00:01.000001 7 a.go:1] Recording NodeReady event message for node n", True),
        ("I1121 10:00:01.000001 7 a.go:1] Node became not ready: {Type:Ready}", False),
        ('{"ts":1.1,"msg":"Recording event message for node","event":"NodeNotReady"}', False),
        ('I1121 10:00:01.000001 7 event.go:1] "Event occurred" object="n" kind="Node" '
         'apiVersion="" type="Normal" reason="NodeReady"', True),
        (line_of("10:00:05.200000", "unready", "", WORDS), False),
    ],
)  # fmt: skip
def test_the_independent_parser(line: str, is_ready: bool) -> None:
    assert [change.is_ready for change in ready_changes([line])] == [is_ready]
