"""Topology hints and affinities as 1.19 to 1.36 log them."""

import pytest

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.correlate.topology import TopologyAssembler
from kubeledger.ingest.messages.catalogue import router
from kubeledger.ingest.messages.container_manager import Hints, hint_of, hints_of, nodes_of_mask
from kubeledger.ingest.sources.items import Fact, KubeletConfigFile, LogLine
from kubeledger.model.bodies.resourcemanagers import Hint, HintsGenerated
from kubeledger.model.record import Evidence
from tests.ingest import feeding
from tests.ingest.feeding import bodies, feed, lines
from tests.ingest.scenes import played_by, played_out

FILE = Evidence(file="pods.json")
ANY = Hint(numa_nodes=None, preferred=True)
NODE_0 = Hint(numa_nodes=(0,), preferred=True)
GPU, NIC = "example.com/gpu", "vendor.io/nic"
TAG = "[topologymanager]"


def context(**pods: str) -> BundleContext:
    """A context that knows these pods: UID -> namespace/name."""
    made = BundleContext(node="n")
    for uid, name in pods.items():
        namespace, pod = name.split("/")
        made.learn_uid(namespace, pod, uid, 0, FILE)
    return made


def run(stream: list[LogLine], **pods: str) -> list[Fact]:
    return feed(TopologyAssembler(Registers(context(**pods))), stream)


def hear(assembler: TopologyAssembler, line: LogLine) -> list[Fact]:
    heard = feeding.hear(router(feeding.listening(assembler)), line)
    assert heard is not None, line.text
    return [fact for handler in heard[1] for fact in handler(heard[0]) or ()]


def offered(facts: list[Fact]) -> list[tuple[str | None, str | None, Hints]]:
    """Pod, container and hints, in order."""
    return [(body.pod, body.container, body.hints) for body in bodies(facts, HintsGenerated)]


class TestHints:
    """The notations."""

    @pytest.mark.parametrize(
        ("value", "hint"),
        [
            ("{01 true}", NODE_0),
            ("{<nil> true}", ANY),
            ("{0101 false}", Hint(numa_nodes=(0, 2), preferred=False)),
            ("{NUMANodeAffinity:11 Preferred:true}", Hint(numa_nodes=(0, 1), preferred=True)),
            ({"NUMANodeAffinity": 3, "Preferred": True}, Hint(numa_nodes=(0, 1), preferred=True)),
            (
                {"NUMANodeAffinity": None, "Preferred": False},
                Hint(numa_nodes=None, preferred=False),
            ),
            ({"NUMANodeAffinity": 0, "Preferred": False}, Hint(numa_nodes=(), preferred=False)),
            ({"NUMANodeAffinity": None, "<br>Preferred": True}, None),
            ({"NUMANode<br>Affinity": 1, "Preferred": True}, None),
            ("{}", None),
        ],
    )
    def test_one(self, value: object, hint: Hint | None) -> None:
        """Binary in text, a number in JSON."""
        assert hint_of(value) == hint

    def test_maps(self) -> None:
        """Go writes nil and empty alike: such resources are unclear."""
        text = "map[a.b/c:[{01 true} {10 true} {11 false}] cpu:[] d:[{<nil> true}]]"
        hints, unclear = hints_of(text)
        node_1 = Hint(numa_nodes=(1,), preferred=True)
        both = Hint(numa_nodes=(0, 1), preferred=False)
        assert hints == {"a.b/c": (NODE_0, node_1, both), "cpu": (), "d": (ANY,)}
        assert unclear == {"cpu"}
        assert hints_of({"a": None, "b": []}) == ({"a": None, "b": ()}, frozenset())
        assert hints_of(None) == ({}, frozenset())
        assert hints_of("map[]") == ({}, frozenset())

    def test_wide_masks(self) -> None:
        """64 nodes."""
        assert nodes_of_mask(1 << 63 | 1) == (0, 63)


SCOPE = f"scope_container.go {TAG}"
HINTS = f"{SCOPE} TopologyHints for pod 'p_ns(u)', container 'c': map[%s:[{{01 true}}]]"
MERGED = f"{SCOPE} ContainerTopologyHint: {{01 true}}"
UID = "36aa1f99-e71c-4fcf-b3f7-3254b6127099"
LOCALITY = "Resources cannot be allocated with Topology locality"
_BEST = 'bestHint={"NUMANodeAffinity":3,"Preferred":false} pod="ns/p" containerName="c"'
_POD = 'bestHint={"NUMANodeAffinity":1,"Preferred":true} pod="ns/p"'
_MANAGER, _OF_POD = "topology_manager.go", f"scope_pod.go {TAG}"
WORDS = {
    "hints": HINTS % "{1}",
    "empty": f"{SCOPE} TopologyHints for pod 'p_ns(u)', container 'c': map[a:[] b:[]]",
    "unasked": f"policy.go {TAG} Hint Provider has no preference for NUMA affinity with resource "
    "'{1}'",
    "never": f"policy.go {TAG} Hint Provider has no possible NUMA affinities for resource '{{1}}'",
    "nohints": f"{SCOPE} TopologyHints for pod 'q_ns(v)', container 'c': map[]",
    "hint": f"{SCOPE} ContainerTopologyHint: {{{{*}}}}",
    "best": f"{SCOPE} Best TopologyHint for (pod: {{1}} container: c): {{{{*}}}}",
    "stored": f"{SCOPE} Topology Affinity for (pod: {{1}} container: c): {{{{*}}}}",
    "oldevent": 'event.go Event(v1.ObjectReference{Kind:"Pod", Namespace:"ns", Name:"p", UID:"u", '
    'APIVersion:"v1", ResourceVersion:"7", FieldPath:""}): type: \'Warning\' reason: '
    f"'TopologyAffinityError' {LOCALITY}",
    "sent": 'event.go "Event occurred" object="ns/p" kind="Pod" apiVersion="v1" type="Warning" '
    f'reason="TopologyAffinityError" message="{LOCALITY}"',
    "set": 'status_manager.go Status Manager: adding pod: "u", with status: (1, {Failed [] Pod '
    f"{LOCALITY} TopologyAffinityError}})",
    "Hint": f'scope_container.go "ContainerTopologyHint" {_BEST}',
    "Best": f'scope_container.go "Best TopologyHint" {_BEST}',
    "result": f'{_MANAGER} "Pod Admit Result" Message="{LOCALITY}" pod="ns/p"',
    "fine": f'{_MANAGER} "Pod Admit Result" Message="" pod="ns/q"',
    "podscope": f'{_MANAGER} "Creating topology manager with policy per scope" '
    'topologyPolicyName="restricted" topologyScopeName="pod"',
    "PodHints": 'scope_pod.go "TopologyHints" hints={"r/x":[{"NUMANodeAffinity":1,"Preferred":'
    'true}]} pod="ns/p"',
    "PodHint": f'scope_pod.go "PodTopologyHint" {_POD}',
    "PodBest": f'scope_pod.go "Best TopologyHint" {_POD}',
    "PodStored": f'scope_pod.go "Topology Affinity" {_POD} containerName="{{1}}"',
    "podhints": f"{_OF_POD} TopologyHints for pod 'p_ns(u)': map[r/x:[{{10 true}}]]",
    "podhint": f"{_OF_POD} PodTopologyHint: {{10 true}}",
    "podbest": f"{_OF_POD} Best TopologyHint for (pod: p_ns(u)): {{10 true}}",
    "podstored": f"{_OF_POD} Topology Affinity for (pod: p_ns(u) container: c): {{10 true}}",
    "single": f"{_MANAGER} {TAG} Creating topology manager with single-numa-node policy",
    "besteffort": f"{_MANAGER} {TAG} Creating topology manager with best-effort policy per",
    "config": 'container_manager_linux.go "Creating Container Manager object based on Node Config" '
    'nodeConfig={"TopologyManagerPolicy":"restricted"}',
    "none": f'{_MANAGER} "Creating topology manager with none policy"',
    "hints19": f"{_MANAGER} {TAG} TopologyHints for pod 'p', container 'c': map[r/x:[{{01 true}}]]",
    "TWO": "0 hints r/x | .1 best p_ns(u) 11 false | .2 nohints | .3 best q_ns(v) 01 true",
}
_BOTH = "Hint(numa_nodes=(0, 1), preferred=False)"
_NODE_0, _NODE_1 = (f"Hint(numa_nodes=({node},), preferred=True)" for node in (0, 1))
_DECIDED = "0 hints r/x | .1 hint 01 true | .2 best p_ns(u) 01 true | .3 stored p_ns(u) 01 true"

SCENES = f"""
providers add up: each has a line of its own
    0 hints cpu | .1 hints r/x | .2 hint 01 true | .3 best p_ns(u) 01 true
    .4 stored p_ns(u) 01 true
    = HintsGenerated hints={{'cpu': ({_NODE_0},), 'r/x': ({_NODE_0},)}}
    = AffinityDecided namespace=ns pod=p pod_uid=u policy=None admit=True disputed=None
the policy says which empty list is no preference, and which no node at all
    0 empty | .1 unasked a | .1 never b | .2 hint 01 true | .3 best p_ns(u) 01 true
    = HintsGenerated hints={{'a': None, 'b': ()}}
the container manager's line tells the policy, whatever a file leaves out
    0 config | .1 hints r/x | .2 hint 01 true | .3 best p_ns(u) 01 true | .4 stored p_ns(u) 01 true
    = AffinityDecided policy=restricted
lines that disagree: all of them write one variable, and another value in one of them is kept
    0 hints cpu | .1 hint 01 true | .2 best p_ns(u) 01 false | .3 stored p_ns(u) 01 true
    = AffinityDecided hint={_NODE_0} disputed=Hint(numa_nodes=(0,), preferred=False)
so it is in the last of them
    0 hints cpu | .1 hint 01 true | .2 best p_ns(u) 01 true | .3 stored p_ns(u) 10 true
    = AffinityDecided hint={_NODE_0} disputed={_NODE_1}
a second line of a merged hint that names nobody is another container's, whose hints are lost
    0 hints cpu | .1 hint 01 false | .2 best p_ns(u) 01 false | .3 hint 10 true
    = AffinityDecided hint=Hint(numa_nodes=(0,), preferred=False) disputed=None
a lost line of the hint is no refusal
    {_DECIDED.replace(" | .1 hint 01 true", "")} | 5 turn
    = AffinityDecided admit=True
a lost line of the best hint is no refusal
    {_DECIDED.replace(" | .2 best p_ns(u) 01 true", "")} | 5 turn
    = AffinityDecided admit=True
a lost line of the affinity is no refusal
    {_DECIDED.partition(" | .3")[0]} | 5 turn
    = AffinityDecided admit=None
a refusal after the next admission: events come from another goroutine
    TWO
    .4 oldevent | 5 turn
    = AffinityDecided pod=p admit=False
    = AffinityDecided pod=q admit=None
without one, nothing says that anybody was refused
    TWO
    5 turn
    = AffinityDecided pod=p admit=None
    = AffinityDecided pod=q admit=None
at a low verbosity only the status shows a refusal
    ~ pod u ns/p
    ~ refused u
    TWO
    5 turn
    = AffinityDecided pod=p admit=False
    = AffinityDecided pod=q admit=None
a refusal of 1.20 in event and status lines
    0 hints r/x | .1 hint 11 false | .2 best p_ns(u) 11 false | .3 set | .4 sent
    = AffinityDecided admit=False hint={_BOTH} lines=2,3,4,5
a refusal of 1.36: the result names the pod; other results do not matter
    ~ pod u ns/p
    0 Hint | .1 Best | .2 result | 60 fine
    = AffinityDecided admit=False pod_uid=u lines=1,2,3
a log that ends in the middle: whether the pod was admitted is not known
    0 hints r/x | .1 hint 01 true
    = AffinityDecided admit=None
hints without a decision are recorded at the end
    0 hints r/x
    = HintsGenerated pod=p
    = !AffinityDecided
pod scope: one decision; an affinity for each container says it again
    ~ pod u ns/p
    0 podscope | .1 PodHints | .2 PodHint | .3 PodBest | .4 PodStored one | 3 PodStored two
    = HintsGenerated container=None
    = AffinityDecided container=None admit=True policy=restricted
pod scope of 1.20, in free text
    0 podhints | .1 podhint | .2 podbest | .3 podstored
    = AffinityDecided pod=p container=None hint={_NODE_1} lines=2,3,4
1.19 names the pod by its name before the decision, by its UID after it
    ~ pod {UID} ns/p
    0 single | .1 hints19 | .2 hint 01 true | .3 stored {UID} 01 true
    = AffinityDecided namespace=ns pod=p pod_uid={UID} policy=single-numa-node admit=True
the same container admitted twice: a restart asks again
    0 hints r/x | .1 hint 01 true | .2 stored p_ns(u) 01 true
    .3 hints r/x | .4 hint 01 true | .5 stored p_ns(u) 01 true
    = HintsGenerated @0
    = HintsGenerated @0.3
    = AffinityDecided @0.1
    = AffinityDecided @0.4
a log that begins in the middle: a merged hint that names nobody waits for one that does
    0 hint 01 true | .1 stored p_ns(u) 01 true
    = AffinityDecided <None lines=2
the policy of the file, where nothing else shows it
    ~ file restricted
    0 stored p_ns(u) 01 true
    = AffinityDecided policy=restricted
the policy of the log is in force
    ~ file restricted
    0 besteffort | .1 stored p_ns(u) 01 true
    = AffinityDecided policy=best-effort
no policy has a message of its own
    ~ file restricted
    0 none | .1 stored p_ns(u) 01 true
    = AffinityDecided policy=none
"""


def _assembler(files: list[str]) -> TopologyAssembler:
    """Of a node that knows pods, refusals of them, and the policy of a file."""
    known = BundleContext(node="n")
    made = TopologyAssembler(Registers(known))
    for row in files:
        word, name, *rest = row.split(" ")
        if word == "pod":
            namespace, _, pod = rest[0].partition("/")
            known.learn_uid(namespace, pod, name, 0, FILE)
        elif word == "refused":
            message, reason = f"Pod {LOCALITY}", "TopologyAffinityError"
            status = {"phase": "Failed", "reason": reason, "message": message}
            known.pods[name].learn({}, status)
        else:
            item = KubeletConfigFile(0, {"topologyManagerPolicy": name}, FILE)
            assert list(feeding.items_of(made)[KubeletConfigFile](item)) == []
    return made


test_scene = played_out(SCENES, WORDS, played_by(_assembler))


def test_hints_that_may_go_on_hold_back_what_is_later() -> None:
    """Until they are complete: by the merged hint, or because nothing follows."""
    for ending in (MERGED, "+1.1s kubelet.go SyncLoop (housekeeping)"):
        assembler = TopologyAssembler(Registers(context()))
        first, second, end = lines(HINTS % "cpu", HINTS % "r/x", ending)
        assert assembler.waiting_since() is None
        for line in (first, second):
            assert hear(assembler, line) == []
            assert assembler.waiting_since() == first.ts_ns
        (fact, *_) = hear(assembler, end)
        assert isinstance(fact.body, HintsGenerated)
        assert (fact.ts_ns, list(fact.body.hints)) == (first.ts_ns, ["cpu", "r/x"])
        assert assembler.waiting_since() in (None, end.ts_ns)
