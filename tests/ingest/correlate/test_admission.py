"""Who was let in, who was not, and who was not put through admission."""

import pytest

from kubeledger.ingest.correlate.rejections import reason_of_message
from tests.ingest.scenes import played_out

SCARCE = "Node didn't have enough resource: memory, requested: 9, used: 1, capacity: 5"
DEVICES = "Allocate failed due to no devices, which is unexpected"
RECOVERY = "Unexpected error while attempting to recover from admission failure: x"
_PLEG = 'event={"ID":"{%s}","Type":"Container{1}","Data":"c"}'
_DENIED = '"Pod admission denied" podUID="{a}" pod="shop/a"'
_FAILED = '"Failed to admit pod, unexpected error while attempting to recover from admission'
WORDS = {
    "SCARCE": f"0 add {{A}} | .2 failed {SCARCE}",
    "pleg": f'kubelet.go "SyncLoop (PLEG): event for pod" pod="shop/a" {_PLEG % "a"}',
    "plegb": f'kubelet.go "SyncLoop (PLEG): event for pod" pod="shop/b" {_PLEG % "b"}',
    "pressed": 'eviction_manager.go "Failed to admit pod to node" pod="shop/a" nodeCondition={*}',
    "denied": f'allocation_manager.go {_DENIED} reason="{{1}}" message="{{*}}" operation="add"',
    "resized": f'allocation_manager.go {_DENIED} reason="{{1}}" message="x" operation="resize"',
    "unfit": 'predicate.go "Predicate failed on Pod" pod="shop/a" err="{*}"',
    "unrecovered": f'predicate.go {_FAILED} failure" pod="shop/a" err="{{*}}"',
    "handled": 'topology_manager.go "Topology Admit Handler" podUID="{1}" podNamespace="shop" '
    'podName="a"',
}

SCENES = rf"""
admitted at the first sign and once
    0 add {{A}} | .2 sync {{A}} | 9 sync {{A}}
    = PodAdmitted @0.2 lines=1,2
a worker's line in a structured log is a sign
    0 Add file | .1 enter
    = PodAdmitted @0.1
what the worker computes is a sign
    0 Add file | .1 kubelet.go "computePodActions got for pod" podActions="x" pod="shop/a"
    = PodAdmitted @0.1
that a sandbox is to be made is a sign
    0 Add file | .1 nosandbox
    = PodAdmitted @0.1
an event of the PLEG is a sign
    0 Add file | .1 pleg Sync
    = PodAdmitted @0.1
a sandbox is a sign
    0 add {{A}} | .1 sandbox 5
    = PodAdmitted @0.1
a killed container is a sign
    0 add {{A}} | .1 why 1 Container x
    = PodAdmitted @0.1
a probe is a sign
    0 add {{A}} | .1 prober.go Readiness probe for "{{A}}:web" failed (failure): x
    = PodAdmitted @0.1
a failed sync is a sign
    0 add {{A}} | .1 pod_workers.go Error syncing pod {{a}} ("{{A}}"), skipping: x
    = PodAdmitted @0.1
the event of a worker is a sign
    0 add {{A}} | .1 warn a FailedMount x
    = PodAdmitted @0.1
of a pod that nothing is heard of nothing is decided, at the end either
    0 add {{A}}, {{B}} | 300 turn
    = !PodAdmitted
    = !PodRejected
a running pod in a later list is a sign
    0 add {{A}} | 300 list a {{"phase":"Running"}}
    = PodAdmitted @300
a list right after the ADD may show the time before
    0 add {{A}} | 1 list a {{"phase":"Running"}}
    = !PodAdmitted
a pending pod in a list says nothing
    0 add {{A}} | 300 list a {{"phase":"Pending"}}
    = !PodAdmitted
a pending pod with containers in a list is a sign
    0 add {{A}} | 300 list a {{"phase":"Pending","containerStatuses":[{{"name":"web"}}]}}
    = PodAdmitted @300
a failed pod that had a container is a sign
    0 add {{A}} | 300 list a {{"phase":"Failed","containerStatuses":[{{"containerID":"x://1"}}]}}
    = PodAdmitted @300
a failed pod in a list says nothing
    0 add {{A}} | 300 list a {{"phase":"Failed"}}
    = !PodAdmitted
a line of the log decides before a status, so the bundle says what the log says alone
    0 add {{A}} | 3 list a {{"phase":"Running"}} | 4.2 sync {{A}}
    = PodAdmitted @4.2
of one that has gone a status says no more when it was let in
    0 add {{A}} | 3 list a {{"phase":"Running"}} | 40 Remove api | 900 turn
    = !PodAdmitted
several ADDs before the first sign
    0 add {{A}} | .1 add {{B}} | .2 sync {{A}} | .3 sync {{B}}
    = PodAdmitted pod=a
    = PodAdmitted pod=b

refused by a predicate with line and event: its place is the line
    SCARCE
    .3 warn a OutOfmemory {SCARCE}
    = PodRejected reason=OutOfmemory lines=2,1,3 message={SCARCE}
    = !PodAdmitted
where line and event differ the kubelet's own line counts, and both are evidence
    SCARCE
    .3 warn a OutOfcpu other words
    = PodRejected reason=OutOfmemory lines=2,1,3 message={SCARCE}
refused for devices, an old kubelet sends an event only
    0 add {{A}} | .001 warn a UnexpectedAdmissionError {DEVICES}
    = PodRejected reason=UnexpectedAdmissionError message={DEVICES}
refused for node conditions
    0 add {{A}}
    .1 eviction_manager.go Failed to admit pod {{A}} - node has conditions: [DiskPressure]
    = PodRejected reason=Evicted message=The node had condition: [DiskPressure].
refused for node conditions in a list as Go prints it
    0 Add file | .1 pressed [DiskPressure PIDPressure]
    = PodRejected reason=Evicted message=The node had condition: [DiskPressure PIDPressure].
refused for node conditions in a list of JSON
    0 Add file | .1 pressed ["DiskPressure","PIDPressure"]
    = PodRejected reason=Evicted message=The node had condition: [DiskPressure PIDPressure].
denied in a structured log
    0 Add file | .0001 unfit Predicate NodePorts failed: taken
    .0002 denied NodePorts Predicate NodePorts failed: taken
    .0003 warn a NodePorts Predicate NodePorts failed: taken
    = PodRejected pod_uid=a reason=NodePorts lines=3,2,1,4
the line whose words are taken comes first
    0 Add file | .0001 unrecovered x | .0002 denied UnexpectedAdmissionError {RECOVERY}
    = PodRejected lines=3,2,1
a denied resize is no refusal of the pod
    0 resized OutOfcpu
    = !PodRejected
a warning about an admitted pod is no refusal
    0 add {{A}} | .1 sync {{A}} | 5 warn a Evicted The node was low
    = !PodRejected
the status shows a refusal that the log leaves out
    ~ status {{"phase":"Failed","reason":"NodeAffinity","message":"Pod Predicate x failed"}}
    0 add {{A}} | 60 turn
    = PodRejected reason=NodeAffinity lines=pods.json,1 message=Predicate x failed
    = !PodAdmitted
the status line of an old kubelet shows a refusal for devices; an event only supports it
    0 add {{A}} | .0002 status Pod {DEVICES} UnexpectedAdmissionError
    .0003 warn a UnexpectedAdmissionError other words
    = PodRejected reason=UnexpectedAdmissionError lines=2,1,3 message={DEVICES}
the status after a refusal supports it, so that their words can be compared
    SCARCE
    .3 status Pod {SCARCE} OutOfmemory
    = PodRejected reason=OutOfmemory lines=2,1,3 message={SCARCE}
a victim fails with a reason, too
    0 add {{A}} | .2 sync {{A}}
    1 status Preempted in order to admit critical pod Preempting
    = !PodRejected

a restarted kubelet asks again, but not for what ended
    ~ status {{"phase":"Running"}}
    0 loop | .1 add {{A}}, {{B}} | .2 sync {{A}} | .3 sync {{B}}
    300 list b {{"phase":"Succeeded"}} | 600 loop
    600.1 add {{A}}, {{B}} | 600.2 sync {{A}} | 600.3 sync {{B}}
    = PodAdmitted @0.2 pod=a
    = PodAdmitted @0.3 pod=b
    = PodAdmitted @600.2 pod=a
a list answers the process that it was taken of, and none that had the pod later
    0 loop | .1 add {{A}} | 9 add {{B}} | 300 list a {{"phase":"Running"}}
    400 list a {{"phase":"Succeeded"}} | 600 loop | 600.1 add {{A}}
    = !PodAdmitted
containers of a former process are no sign, whatever became of the pod
    ~ pod a {{"seen":"09:00:00"}}
    ~ pod b {{"seen":"10:10:00"}}
    0 loop | 600.1 add {{A}}, {{B}} | 600.5 pleg Started | 600.6 pleg Died | 600.7 plegb Started
    = PodAdmitted pod=b
of an older pod that is listed without a status it is not known whether it had ended
    ~ pod a {{"seen":"09:00:00"}}
    ~ pod b {{"seen":"10:10:00"}}
    0 loop | 600.1 add {{A}}, {{B}} | 600.2 sync {{A}} | 600.3 sync {{B}}
    = PodAdmitted @600.3 pod=b
a refused pod is not asked again
    -600 loop
    SCARCE
    600 loop | 601 add {{A}} | 602 sync {{A}}
    = !PodAdmitted
a refused pod that is static is asked again
    -600 loop | 0 addfile {{A}} | .2 failed {SCARCE}
    600 loop | 601 addfile {{A}} | 602 sync {{A}}
    = PodAdmitted @602
a pod with the name of one that was removed is another, with the UID that the handler shows
    0 Add api | .1 handled {{a}} | .2 warn a TopologyAffinityError no
    10 Remove api | 10.1 kubelet.go "SyncPod exit" pod="shop/a" podUID="{{a}}"
    60 Add api | 60.1 handled {{b}} | 60.2 warn a TopologyAffinityError no
    = PodRejected pod_uid=a
    = PodRejected pod_uid=b
it never has the UID of the first
    0 Add api | .2 warn a TopologyAffinityError no
    10 Remove api | 10.1 kubelet.go "SyncPod exit" pod="shop/a" podUID="{{a}}"
    60 Add api | 60.2 warn a TopologyAffinityError no
    = PodRejected pod_uid=None
    = PodRejected pod_uid=None
a mirror pod is not asked
    0 Add file | .2 enter | 1 Add api | 1.2 enter
    = PodAdmitted @0.2
"""

test_scene = played_out(SCENES, WORDS)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (SCARCE, "OutOfmemory"),
        (SCARCE.replace("memory", "example.com/gpu"), "OutOfexample.com/gpu"),
        ("Predicate NodeAffinity failed", "NodeAffinity"),
        ("Predicate NodePorts failed: x", "NodePorts"),
        ("Update plugin resources failed due to x, which is unexpected.",
         "UnexpectedAdmissionError"),
        ("Unexpected error while attempting to recover from admission failure: x",
         "UnexpectedAdmissionError"),
        ("GeneralPredicates failed due to unknown reason, which is unexpected.", "UnknownReason"),
        ("GeneralPredicates failed due to x, which is unexpected.",
         "UnexpectedPredicateFailureType"),
        ("SupplementalGroupsPolicy=Strict is not supported in this node",
         "SupplementalGroupsPolicyNotSupported"),
        ("something else", None),
    ],
)  # fmt: skip
def test_reasons_that_go_with_messages(message: str, reason: str | None) -> None:
    assert reason_of_message(message) == reason
