"""Device lines and checkpoints of both kubelets, and what else they may log."""

import json
from collections.abc import Mapping

import pytest

from kubeledger.ingest.correlate.context import (
    AllocationEntry,
    BundleContext,
    IndexedEvent,
)
from kubeledger.ingest.correlate.devices import DeviceAssembler
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.correlate.survey import _take_checkpoint
from kubeledger.ingest.sources.items import (
    ApiEvent,
    Checkpoint,
    Fact,
    Item,
    PodList,
)
from kubeledger.ingest.sources.shapes import ApiReason
from kubeledger.kubelet.devicemanager.checkpoint import read_checkpoint
from kubeledger.kubelet.kube.gotypes import fnv1a32
from kubeledger.model.bodies.devicemanager import (
    AllocationFailed,
)
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.record import Evidence
from tests.ingest.feeding import at as clock_ns
from tests.ingest.feeding import bodies, feed, log_line
from tests.ingest.scenes import WORDS as SHARED
from tests.ingest.scenes import events_of, line_of, played_out

FILE = Evidence(file="checkpoint")


def devices_of(known: BundleContext) -> DeviceAssembler:
    """The assembler of a node whose log tells of no pods."""
    return DeviceAssembler(Registers(known))


def context(*checkpoints: Checkpoint, **pods: str) -> BundleContext:
    """A context that knows pods (UID -> namespace/name) and the entries of checkpoints."""
    made = BundleContext(node="n")
    for uid, name in pods.items():
        namespace, pod = name.split("/")
        made.learn_uid(namespace, pod, uid.replace("_", "-").removeprefix("-"), 0, FILE)
    for item in checkpoints:
        for entry in read_checkpoint(item.data).entries:
            key = (entry.pod_uid, entry.container, entry.resource)
            found = AllocationEntry(item.ts_ns, entry.numa, item.evidence)
            made.allocations.setdefault(key, found)
    return made


def checkpoint(
    ts_ns: int, *entries: tuple[str, str, str, dict[str, list[str]]], **registered: list[str]
) -> Checkpoint:
    texts = [
        f"{{PodUID:(string){uid} ContainerName:(string){container} "
        f"ResourceName:(string){resource} DeviceIDs:(checkpoint.DevicesPerNUMA)map["
        + " ".join(f"{node}:[{' '.join(ids)}]" for node, ids in numa.items())
        + "] AllocResp:([]uint8)<nil>}"
        for uid, container, resource, numa in entries
    ]
    lists = " ".join(f"{name}:[{' '.join(ids)}]" for name, ids in sorted(registered.items()))
    text = (
        "(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)"
        f"[{' '.join(texts)}] RegisteredDevices:(map[string][]string)map[{lists}]}}"
    )
    names = ("PodUID", "ContainerName", "ResourceName", "DeviceIDs")
    data = {
        "Data": {
            "PodDeviceEntries": [dict(zip(names, entry, strict=True)) for entry in entries],
            "RegisteredDevices": registered,
        },
        "Checksum": fnv1a32(text),
    }
    return Checkpoint(ts_ns, data, json.dumps(data).encode(), FILE)


LOCALITY = "Resources cannot be allocated with Topology locality"
OTHERS = "the checkpoint b; what was recorded first is used"
UNAVAILABLE = "requested number of devices unavailable for r/x. Requested: 3, Available: 1"
REFUSAL = f"Allocate failed due to {UNAVAILABLE}, which is unexpected"
_CALL = 'manager.go "Making allocation request for device plugin" devices={*}'
_EVENT = 'event.go "Event occurred" object="ns/p" kind="Pod" apiVersion="v1" type="Warning"'
_SHORT = "topology_hints.go [devicemanager] Unable to generate topology hints: requested number of"
_REGISTER = "manager.go Got registration request from device plugin with resource name"
_FOUND = "manager.go Found pre-allocated devices for resource {2} container"
WORDS = {
    "need": 'manager.go Needs to allocate {3} "{2}" for pod "u" container "{1}"',
    "make": "manager.go Making allocation request for devices [{*}] for device plugin r/x",
    "makey": "manager.go Making allocation request for devices [{*}] for device plugin r/y",
    "Need": 'manager.go "Need devices to allocate for pod" deviceNumber=2 resourceName="r/x" '
    'podUID="u" containerName="c"',
    "Make": f'{_CALL} resourceName="r/x"',
    "Call": f'{_CALL} resourceName="r/x" pod="ns/p" containerName="c"',
    "found": f'{_FOUND} "{{1}}" in Pod "u": [{{*}}]',
    "restored": "pod_devices.go Get checkpoint entry: u c r/x map[-1:[b] 0:[a]] [10 13]",
    "Restored": 'pod_devices.go "Get checkpoint entry" podUID="v" containerName="c" '
    'resourceName="r/x" deviceIDs={"1":["d"]} allocated="CgE="',
    "removed": "manager.go pods to be removed: [u]",
    "Removed": 'manager.go "Pods to be removed" podUIDs=["u","v"]',
    "denied": 'allocation_manager.go "Pod admission denied" podUID="u" pod="ns/p" '
    'reason="UnexpectedAdmissionError" message="{*}"',
    "sent": f'{_EVENT} reason="{{1}}" message="{{*}}"',
    "set": 'status_manager.go Status Manager: adding pod: "u", with status: (1, {Failed [] Pod {*} '
    "UnexpectedAdmissionError    [] <nil> [] []  []}) to x",
    "kept": 'status_manager.go Status Manager: syncing pod: "u", with status: (2, {Failed [] Pod '
    "{*} UnexpectedAdmissionError    [] <nil> [] []  []}) from x",
    "oldevent": 'event.go Event(v1.ObjectReference{Kind:"Pod", Namespace:"ns", Name:"p", UID:"u", '
    'APIVersion:"v1", ResourceVersion:"7", FieldPath:""}): type: \'Warning\' reason: '
    "'UnexpectedAdmissionError' {*}",
    "short": f"{_SHORT} devices unavailable for 'r/x': requested: {{1}}, available: 1",
    "written": 'checkpoint_manager.go "Checkpoint file written"',
    "register": f'{_REGISTER} "r/x"',
    "bad": f'{_REGISTER} "bad name"',
    "refused": 'manager.go Bad registration request from device plugin with resource name "bad '
    'name": invalid name',
    "Register": 'server.go "Got registration request from device plugin with resource" '
    'resourceName="r/x"',
    "undialled": 'server.go "Error connecting to device plugin client" err="dial failed"',
    "registered": "manager.go Registered endpoint &{0xc0 0xc1 r/x}",
    "ended": "endpoint.go listAndWatch ended unexpectedly for device plugin r/x with error EOF",
    "marked": "manager.go Mark all resources Unhealthy for resource r/x",
    "unhealthy": "manager.go Endpoint (r/x, &{0xc0}) became unhealthy",
    "pushed": "endpoint.go State pushed for device plugin r/x",
    "Pushed": '{1}.go "State pushed for device plugin" {2}="{3}" resourceCapacity=4',
    "counted": 'manager.go "Processed device updates for resource" resourceName="r/z" '
    "totalCount=4 healthyCount=2",
    "miscounted": 'manager.go "Processed device updates for resource" resourceName="r/z" '
    "totalCount=5 healthyCount=2",
}

SCENES = rf"""
without a checkpoint the nodes are unknown
    0 need c r/x 2 | .1 make b a
    = DevicesAllocated pod=p pod_uid=u container=c resource=r/x device_ids=('a', 'b') numa=None
a call that failed gave nothing: the line comes before the call, the refusal shows how it went
    0 need c r/x 1 | .1 make a
    .2 sent UnexpectedAdmissionError Allocate failed due to rpc error: code = x, which is unexpected
    = !DevicesAllocated
    = AllocationFailed container=c resource=r/x error=rpc error: code = x
what was written into the checkpoint had been given, whatever fails after it
    0 need c r/x 1 | .1 make a | .15 written
    .2 sent UnexpectedAdmissionError Allocate failed due to rpc error: code = x, which is unexpected
    = DevicesAllocated @0.1
only the last call of a refused pod failed
    0 need one r/x 1 | .1 make a | .2 need two r/x 3 | .3 denied {REFUSAL}
    = DevicesAllocated container=one
    = AllocationFailed container=two
errors of other managers are in the same words
    0 need c r/x 1 | .1 make a
    .2 sent UnexpectedAdmissionError Allocate failed due to not enough cpus available, which is x
    = DevicesAllocated container=c
    = !AllocationFailed
structured lines of versions in between: Go lists, and no pod in the line of the call
    0 Need | .1 Make [b a]
    = DevicesAllocated pod_uid=u container=c resource=r/x device_ids=('a', 'b') numa=None
a call without its request names pod and container itself
    0 Call ["a"]
    = DevicesAllocated pod_uid=u container=c
so it does where no source shows the UID
    ~ nobody
    0 Call ["a"]
    = DevicesAllocated namespace=ns pod=p pod_uid=None
a call for another resource than was asked for is recorded as it stands, with its request
    0 need c r/x 1 | .1 makey a
    = DevicesAllocated <AllocationRequested container=c resource=r/y device_ids=('a',)
long after the request it is another's, whose own request is not in the log
    0 need c r/x 1 | 5 makey a
    = !DevicesAllocated
so is one for another number: a call is for as many as its request
    0 need init r/x 1 | .1 make a b
    = !DevicesAllocated
a call that stands twice in the log
    0 Call ["a"] | 0 Call ["a"]
    = DevicesAllocated container=c
a second call
    0 Call ["a"] | .1 Call ["a"]
    = DevicesAllocated @0
    = DevicesAllocated @0.1
how an allocation became known: from the call, or from what a new kubelet finds of before
    0 need c r/x 1 | .1 make a | .2 found d r/x b
    = DevicesAllocated container=c told_by=call
    = DevicesAllocated container=d told_by=restore
at low verbosity only the checkpoint shows what was allocated, once
    60 checkpoint u c r/x 1:b,a r=a | 120 checkpoint u c r/x 1:b,a r=a,b
    = DevicesAllocated @60 device_ids=('a', 'b') numa={{'1': ('a', 'b')}} told_by=checkpoint
    = CheckpointRead @60
    = CheckpointRead @120
a request leads to what the checkpoint shows: 1.36 at verbosity 3 does not log the devices
    0 need c r/x 1 | 60 checkpoint u c r/x 0:a
    = DevicesAllocated <AllocationRequested
a snapshot of the same second is named by the whole second before the line
    0 checkpoint u c r/x 0:a | .1 need c r/x 1 | .2 make a
    = DevicesAllocated told_by=checkpoint
where log and checkpoint disagree the log is believed, and a finding names both, once
    0 need c r/x 1 | .1 make a | 60 checkpoint u c r/x 0:b | 120 checkpoint u c r/x 0:b r=b
    = DevicesAllocated device_ids=('a',)
    = FindingReported finding=contradiction lines=checkpoint,2
after its release the same UID may hold others: a static pod's is a hash
    0 need c r/x 1 | .1 make a | 5 checkpoint u c r/x 0:a | 9 removed | 9.1 need c r/x 1
    9.2 make b | 20 checkpoint u c r/x 0:b
    = DevicesAllocated device_ids=('a',)
    = DevicesAllocated device_ids=('b',)
    = !FindingReported
restored entries are recorded where nothing showed them before
    0 restored | .1 found c r/x a b | .2 found c r/y z | .3 Restored
    = DevicesAllocated pod_uid=u device_ids=('a', 'b') numa={{'-1': ('b',), '0': ('a',)}}
    = DevicesAllocated pod_uid=u resource=r/y device_ids=('z',) numa=None
    = DevicesAllocated pod_uid=v resource=r/x device_ids=('d',) numa={{'1': ('d',)}}
a container keeps its devices: a checkpoint that shows others, once, disagrees
    10 checkpoint 0c-00 c r/x 0:a | 20 checkpoint 0c-00 c r/x 0:b | 30 checkpoint 0c-00 c r/x 0:a
    = DevicesAllocated device_ids=('a',)
    = !DevicesReleased
    = FindingReported message=all sources so far give r/x a to container c of pod 0c-00, {OTHERS}

a release by a line, once: the kubelet may log it again after a restart
    0 need c r/x 1 | .1 make a | .2 Removed | .3 removed
    = DevicesReleased pod_uid=u
    = DevicesReleased pod_uid=v
a stale entry is no allocation: the checkpoint is not rewritten when devices come free
    0 need c r/x 1 | .1 make a | 5 checkpoint u c r/x 0:a | 9 removed
    20 checkpoint u c r/x 0:a r=a
    = DevicesAllocated @0.1
    = DevicesReleased @9
a release by absence: of one container, then of the whole pod
    60 checkpoint u c r/x 0:a u d r/x 0:b | 120 checkpoint u d r/x 0:b | 180 checkpoint
    = DevicesReleased pod_uid=u container=c resource=r/x inferred=True
    = DevicesReleased pod_uid=u container=None resource=None inferred=True
other devices in a later checkpoint were allocated anew
    60 checkpoint u c r/x 0:a | 120 checkpoint u c r/x 0:b
    = DevicesAllocated device_ids=('a',)
    = DevicesReleased inferred=True
    = DevicesAllocated device_ids=('b',)

a pod refused again is a second refusal: a static pod is admitted anew after each restart
    0 denied {REFUSAL} | 60 denied {REFUSAL}
    = AllocationFailed @0
    = AllocationFailed @60
other words at once are no second refusal: what says it otherwise is evidence
    0 set {REFUSAL} | .1 sent UnexpectedAdmissionError {REFUSAL.replace("e: 1", "e: 2")}
    .2 kept {REFUSAL}
    = AllocationFailed lines=1,2,3 error={UNAVAILABLE}
a status that is repeated later is no refusal: only an admission refuses
    0 kept {REFUSAL} | 60 kept {REFUSAL}
    = AllocationFailed @0
with a strict policy the topology manager refuses before the device manager can
    0 short 3 | .1 sent TopologyAffinityError {LOCALITY}
    = AllocationFailed pod_uid=u resource=r/x requested=3 available=1
it refuses for other reasons, too
    .1 sent TopologyAffinityError {LOCALITY}
    = !AllocationFailed
of two pods short of the same each refusal takes its own shortage, by the counts
    0 short 5 | .1 short 3 | .2 sent UnexpectedAdmissionError {REFUSAL}
    = AllocationFailed lines=2,3
up to 1.19 events were free text
    ~ nobody
    0 oldevent {REFUSAL}
    = AllocationFailed namespace=ns pod=p pod_uid=u
an event of the API alone, at its time
    ~ nobody
    7 event {REFUSAL}
    = AllocationFailed @7 told_by=event
an event and the line a moment later: the event has whole seconds
    ~ nobody
    0 event {REFUSAL} | .1 denied {REFUSAL}
    = AllocationFailed @0.1 lines=2,events.json
an event that the first look found is evidence
    ~ event {REFUSAL}
    .1 denied {REFUSAL}
    = AllocationFailed lines=1,checkpoint
the status of a failed pod, in as many lists as there are; mirror pods by their hash
    ~ nobody
    0 status {REFUSAL} | 60 status {REFUSAL} | 120 status {REFUSAL}
    = AllocationFailed pod_uid=u requested=3 told_by=status
heartbeats end the wait: a refusal leaves with the next housekeeping line
    0 denied {REFUSAL} | 2 turn | 3 removed
    = AllocationFailed @0
    = DevicesReleased @3

a bad registration is none: the request alone is not enough when the answer is an error
    0 bad | .1 refused | .2 Register | .3 undialled
    = !PluginRegistered
at low verbosity the request counts
    0 register
    = PluginRegistered resource=r/x
a replaced endpoint ends without effect: the new one is in place before the old one ends
    0 register | .1 registered | .2 ended | .3 unhealthy
    = PluginRegistered lines=1,2
    = !EndpointStopped
an endpoint that ends: three lines, one fact
    0 ended | .1 marked | .2 unhealthy
    = EndpointStopped resource=r/x error=EOF lines=1,2,3
reports by version: without counts, with a total, with both
    0 pushed | .1 Pushed endpoint resource r/y | .2 Pushed client resource r/z | .3 counted
    = DevicesReported resource=r/x total=None healthy=None
    = DevicesReported resource=r/y total=4 healthy=None
    = DevicesReported resource=r/z total=4 healthy=2
    = !FindingReported
one list is counted twice, and in the same way
    0 Pushed client resource r/z | .1 miscounted
    = FindingReported finding=lines_disagree
two lists of one resource may be under way, where a plugin comes anew
    0 Pushed client resource r/z | .1 Pushed client resource r/z | .2 miscounted
    = !FindingReported
a checkpoint with a wrong checksum is recorded, found, and not relied on
    60 wrong u c r/x 0:a r=a
    = CheckpointRead checksum_ok=False
    = FindingReported finding=checksum_mismatch
    = !DevicesAllocated
an unchanged file is read once, as often as an agent copies it
    0 checkpoint r=a | 60 checkpoint r=a | 120 checkpoint r=a
    = CheckpointRead @0
a plugin that is away reports nothing: its empty list is none that it sent
    60 checkpoint r=a | 120 checkpoint r=
    = DevicesReported healthy=1
"""


def _checkpoint(ts_ns: int, text: str) -> Checkpoint:
    """``UID CONTAINER RESOURCE NODE:IDS``, of each entry; then ``RESOURCE=IDS`` as registered."""
    words = text.split()
    registered = dict(word.split("=") for word in words if "=" in word)
    entries = [word for word in words if "=" not in word]
    parsed = []
    for uid, container, resource, devices in zip(*(iter(entries),) * 4, strict=True):
        node, _, ids = devices.partition(":")
        parsed.append((uid, container, resource, {node: ids.split(",")}))
    lists = {name: [each for each in ids.split(",") if each] for name, ids in registered.items()}
    return checkpoint(ts_ns, *parsed, **lists)


def _item(word: str, ts_ns: int, text: str) -> Item | None:
    pod = {"namespace": "ns", "name": "p", "uid": "u"}
    match word:
        case "checkpoint" | "wrong":
            item = _checkpoint(ts_ns, text)
            item.data["Checksum"] ^= word == "wrong"
            return item
        case "event":
            about = {"involvedObject": {"kind": "Pod", **pod}, "message": text}
            event = {**about, "reason": "UnexpectedAdmissionError"}
            return ApiEvent(ts_ns, ApiReason.read(event), Evidence(file="events.json"))
        case "status":
            mirror = {"uid": "mirror", "annotations": {"kubernetes.io/config.mirror": "u"}}
            reason = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
            status = {**reason, "message": f"Pod was rejected: {text}"}
            return PodList(ts_ns, "api", [{"metadata": pod | mirror, "status": status}], True, FILE)
        case _:
            return None


def play(files: list[str], rows: list[str], words: Mapping[str, str]) -> list[Fact]:
    """The facts of a scene on a node that knows pod ``u``, unless it knows nobody."""
    stream: list[Item] = []
    for number, (clock, word, text) in enumerate(events_of(rows, words), 1):
        item = _item(word, clock_ns(clock), text)
        stream.append(item or log_line(line_of(clock, word, text, words), number))
    known = [piece for piece in stream if isinstance(piece, Checkpoint)]
    made = context(*known, **({} if "nobody" in files else {"u": "ns/p"}))
    for row in files:
        message = row.removeprefix("event ")
        when = clock_ns("10:00:00")
        key = ("Pod", "ns", "p", "UnexpectedAdmissionError", message)
        made.events[key] = IndexedEvent(ApiReason.read({}), 1, when, when, (FILE,))
    return feed(devices_of(made), stream)


test_scene = played_out(SCENES, WORDS, play)


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (UNAVAILABLE, ("c", "r/x", 3, 1)),
        ("can't allocate unregistered device r/x", ("c", "r/x", None, None)),
        ("cannot allocate unregistered device r/x", ("c", "r/x", None, None)),
        ("no healthy devices present; cannot allocate unhealthy devices r/x",
         ("c", "r/x", None, None)),
        ("previously allocated devices are no longer healthy; cannot allocate unhealthy devices "
         "r/x", ("c", "r/x", None, None)),
        ('pod "u" container "other" changed request for resource "r/x" from 1 to 2',
         ("other", "r/x", 2, None)),
        ("unexpectedly allocated less resources than required. Requested: 3, Got: 2",
         ("c", "r/x", 3, None)),
        ("unknown Device Plugin r/x", ("c", "r/x", None, None)),
        ("device plugin GetPreferredAllocation rpc failed with err: x", ("c", "r/x", None, None)),
    ],
)  # fmt: skip
def test_errors(error: str, found: tuple[str, str, int | None, int | None]) -> None:
    """Container and resource come from the request when the text has none."""
    quoted = f"Allocate failed due to {error}, which is unexpected".replace('"', '\\"')
    facts = play([], ["0 need c r/x 1", f".1 denied {quoted}"], {**SHARED, **WORDS})
    (body,) = bodies(facts, AllocationFailed)
    assert (body.container, body.resource, body.requested, body.available) == found
    assert body.error == error


def test_the_first_look_relies_on_no_wrong_checksum() -> None:
    """What such a file holds is no evidence of a grant, and a sound one after it is."""
    wrong, sound = _checkpoint(1, "u c r/x 0:a r=a"), _checkpoint(2, "u c r/x 1:a r=a")
    wrong.data["Checksum"] ^= 1
    broken = Checkpoint(3, {"Data": {"PodDeviceEntries": []}}, b"{", FILE)
    looked = BundleContext(node="n")
    for item in (wrong, sound, broken):
        _take_checkpoint(looked, item)
    assert looked.allocations["u", "c", "r/x"].numa == {"1": ("a",)}


def test_half_a_checkpoint() -> None:
    half = Checkpoint(1, {"Data": {"PodDeviceEntries": 3}}, b"{", FILE)
    facts = feed(devices_of(BundleContext(node="n")), [half])
    assert [body.finding for body in bodies(facts, FindingReported)] == ["malformed_checkpoint"]
