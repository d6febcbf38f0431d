"""Topology hints and affinities as 1.19 to 1.36 log them."""

from __future__ import annotations

import pytest

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.topology import TopologyAssembler
from kubeledger.ingest.messages.catalogue import router
from kubeledger.ingest.messages.topology_hints import Hints, hint_of, hints_of, nodes_of_mask
from kubeledger.ingest.sources.facts import Fact
from kubeledger.ingest.sources.items import KubeletConfigFile, LogLine
from kubeledger.model.bodies.topologymanager import AffinityDecided, Hint, HintsGenerated
from kubeledger.model.record import Evidence
from tests.ingest import feeding
from tests.ingest.feeding import at, bodies, feed, lines, of_kind, recorded

FILE = Evidence(file="pods.json")
ANY = Hint(numa_nodes=None, preferred=True)
ANY_AT_ALL = Hint(numa_nodes=None, preferred=False)
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
    """Facts of these lines."""
    return feed(TopologyAssembler(context(**pods)), stream)


def hear(assembler: TopologyAssembler, line: LogLine) -> list[Fact]:
    """What one line makes leave."""
    heard = feeding.hear(router([assembler]), line)
    assert heard is not None, line.text
    return [fact for handler in heard[1] for fact in handler(heard[0]) or ()]


def offered(facts: list[Fact]) -> list[tuple[str | None, str | None, Hints]]:
    """Pod, container and hints, in order."""
    return [(body.pod, body.container, body.hints) for body in bodies(facts, HintsGenerated)]


class TestRecordings:
    """Two real nodes with the best-effort policy in container scope."""

    def test_1_20(self) -> None:
        """Hints by resource, the node 0 in binary; an affinity for every one."""
        facts = run(recorded("topology/v1.20.2.log"))
        assert [
            (body.pod, body.container, body.hints) for body in bodies(facts, HintsGenerated)
        ] == [
            ("gpu-a", "warmup", {GPU: (NODE_0,)}),
            ("gpu-a", "train", {GPU: (NODE_0,), NIC: (NODE_0,)}),
            ("gpu-b", "train", {GPU: ()}),
            ("gpu-d", "train", {GPU: None, NIC: None}),
        ]
        decided = of_kind(facts, AffinityDecided)
        assert [len(fact.evidence) for fact in decided] == [3, 3, 3, 3]
        assert [fact.cause for fact in decided] == of_kind(facts, HintsGenerated)
        assert {(body.policy, body.admit) for body in bodies(facts, AffinityDecided)} == {
            ("best-effort", True)
        }
        assert [body.hint.preferred for body in bodies(facts, AffinityDecided)] == [
            True,
            True,
            False,
            True,
        ]

    def test_the_log_teaches_uids(self) -> None:
        """Free text names the pod whole."""
        assembler = TopologyAssembler(known := context())
        feed(assembler, recorded("topology/v1.20.2.log"))
        uid = "36aa1f99-e71c-4fcf-b3f7-3254b6127099"
        assert known.uids_by_name["default", "gpu-a"] == [uid]

    def test_1_36(self) -> None:
        """JSON: null and the empty list are two things, and masks are numbers."""
        facts = run(recorded("topology/v1.36.2.log"), u="default/gpu-a-node-b")
        assert [
            (body.pod, body.container, body.hints) for body in bodies(facts, HintsGenerated)
        ] == [
            ("gpu-a-node-b", "warmup", {GPU: (NODE_0,)}),
            ("gpu-a-node-b", "side", {GPU: (NODE_0,)}),
            ("gpu-a-node-b", "train", {GPU: (NODE_0,), NIC: (NODE_0,)}),
            ("gpu-c-node-b", "train", {GPU: ()}),
        ]
        assert [body.pod_uid for body in bodies(facts, AffinityDecided)] == ["u", "u", "u", None]
        assert [len(fact.evidence) for fact in of_kind(facts, AffinityDecided)] == [3] * 4
        assert {body.policy for body in bodies(facts, AffinityDecided)} == {"best-effort"}


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


def hints_20(resource: str = "r/x", hints: str = "[{01 true}]", container: str = "c") -> str:
    """1.20's line of a provider's hints."""
    return (
        f"scope_container.go {TAG} TopologyHints for pod 'p_ns(u)', container '{container}': "
        f"map[{resource}:{hints}]"
    )


class TestAdmissions:
    """What the sequence of lines means."""

    def test_providers_add_up(self) -> None:
        """Each has a line of its own."""
        facts = run(
            lines(
                hints_20("cpu"),
                hints_20("r/x"),
                f"scope_container.go {TAG} ContainerTopologyHint: {{01 true}}",
                f"scope_container.go {TAG} Best TopologyHint for (pod: p_ns(u) container: c): "
                "{01 true}",
                f"scope_container.go {TAG} Topology Affinity for (pod: p_ns(u) container: c): "
                "{01 true}",
            )
        )
        (generated,) = bodies(facts, HintsGenerated)
        assert list(generated.hints) == ["cpu", "r/x"]
        (decided,) = bodies(facts, AffinityDecided)
        assert (decided.namespace, decided.pod, decided.pod_uid) == ("ns", "p", "u")
        assert decided.policy is None

    @pytest.mark.parametrize(("best", "stored"), [("01 false", "01 true"), ("01 true", "10 true")])
    def test_lines_that_disagree(self, best: str, stored: str) -> None:
        """All of them write one variable: another value in one of them is told."""
        whom = "(pod: p_ns(u) container: c)"
        facts = run(
            lines(
                hints_20("cpu"),
                f"scope_container.go {TAG} ContainerTopologyHint: {{01 true}}",
                f"scope_container.go {TAG} Best TopologyHint for {whom}: {{{best}}}",
                f"scope_container.go {TAG} Topology Affinity for {whom}: {{{stored}}}",
            )
        )
        (decided,) = bodies(facts, AffinityDecided)
        assert decided.hint == NODE_0
        other = best if best != "01 true" else stored
        assert decided.disputed == hint_of(f"{{{other}}}")

    @pytest.mark.parametrize("lost", [1, 2, 3])
    def test_a_lost_line_is_no_refusal(self, lost: int) -> None:
        """Whichever line of a decision is missing, nothing says that the pod was refused."""
        whom = "(pod: p_ns(u) container: c)"
        every = [
            hints_20(),
            f"scope_container.go {TAG} ContainerTopologyHint: {{01 true}}",
            f"scope_container.go {TAG} Best TopologyHint for {whom}: {{01 true}}",
            f"scope_container.go {TAG} Topology Affinity for {whom}: {{01 true}}",
        ]
        del every[lost]
        facts = run(lines(*every, "+5s kubelet.go SyncLoop (housekeeping)"))
        (decided,) = bodies(facts, AffinityDecided)
        assert decided.admit is (None if lost == 3 else True)

    def refused(self, *reported: str, known: BundleContext | None = None) -> list[bool | None]:
        """Whether two containers were let in, the first one's pod refused by these lines."""
        stream = lines(
            hints_20(),
            f"scope_container.go {TAG} Best TopologyHint for (pod: p_ns(u) container: c): {{11 "
            "false}",
            f"scope_container.go {TAG} TopologyHints for pod 'q_ns(v)', container 'c': map[]",
            f"scope_container.go {TAG} Best TopologyHint for (pod: q_ns(v) container: c): {{01 "
            "true}",
            *reported,
            "+5s kubelet.go SyncLoop (housekeeping)",
        )
        facts = feed(TopologyAssembler(known or context()), stream)
        return [body.admit for body in bodies(facts, AffinityDecided)]

    def test_a_refusal_told_behind_the_next_admission(self) -> None:
        """Events come from another goroutine."""
        event = (
            'event.go Event(v1.ObjectReference{Kind:"Pod", Namespace:"ns", Name:"p", UID:"u", '
            'APIVersion:"v1", ResourceVersion:"7", FieldPath:""}): type: \'Warning\' reason: '
            "'TopologyAffinityError' Resources cannot be allocated with Topology locality"
        )
        assert self.refused(event) == [False, None]
        assert self.refused() == [None, None]

    def test_a_refusal_that_only_the_status_tells(self) -> None:
        """At a low verbosity the log has no line of it."""
        known = context(u="ns/p")
        status = {
            "phase": "Failed",
            "reason": "TopologyAffinityError",
            "message": "Pod Resources cannot be allocated with Topology locality",
        }
        known.pods["u"].statuses.append(status)
        assert self.refused(known=known) == [False, None]

    def test_a_refusal_of_1_20(self) -> None:
        """Event and status lines tell it."""
        facts = run(
            lines(
                hints_20(),
                f"scope_container.go {TAG} ContainerTopologyHint: {{11 false}}",
                f"scope_container.go {TAG} Best TopologyHint for (pod: p_ns(u) container: c): "
                "{11 false}",
                'status_manager.go Status Manager: adding pod: "u", with status: (1, {Failed [] '
                "Pod Resources cannot be allocated with Topology locality TopologyAffinityError})",
                'event.go "Event occurred" object="ns/p" kind="Pod" apiVersion="v1" '
                'type="Warning" reason="TopologyAffinityError" message="Resources cannot be '
                'allocated with Topology locality"',
            )
        )
        (decided,) = of_kind(facts, AffinityDecided)
        assert isinstance(decided.body, AffinityDecided)
        assert decided.body.admit is False
        assert decided.body.hint == Hint(numa_nodes=(0, 1), preferred=False)
        assert len(decided.evidence) == 4

    def test_a_refusal_of_1_36(self) -> None:
        """The result names the pod; other results do not matter."""
        best = 'bestHint={"NUMANodeAffinity":3,"Preferred":false} pod="ns/p" containerName="c"'
        facts = run(
            lines(
                f'scope_container.go "ContainerTopologyHint" {best}',
                f'scope_container.go "Best TopologyHint" {best}',
                'topology_manager.go "Pod Admit Result" Message="Resources cannot be allocated '
                'with Topology locality" pod="ns/p"',
                '+60s topology_manager.go "Pod Admit Result" Message="" pod="ns/q"',
            ),
            u="ns/p",
        )
        (decided,) = of_kind(facts, AffinityDecided)
        assert isinstance(decided.body, AffinityDecided)
        assert (decided.body.admit, decided.body.pod_uid) == (False, "u")
        assert len(decided.evidence) == 3

    def test_a_log_that_ends_in_the_middle(self) -> None:
        """Whether the pod was admitted is not known."""
        facts = run(
            lines(hints_20(), f"scope_container.go {TAG} ContainerTopologyHint: {{01 true}}")
        )
        assert [body.admit for body in bodies(facts, AffinityDecided)] == [None]

    def test_hints_without_a_decision(self) -> None:
        """They are told at the end."""
        assert [type(fact.body) for fact in run(lines(hints_20()))] == [HintsGenerated]

    def test_hints_that_may_go_on_hold_back_what_is_later(self) -> None:
        """Until they are complete: by the merged hint, or because nothing follows."""
        merged = f"scope_container.go {TAG} ContainerTopologyHint: {{01 true}}"
        for ending in (merged, "+1.1s kubelet.go SyncLoop (housekeeping)"):
            assembler = TopologyAssembler(context())
            first, second, end = lines(hints_20("cpu"), hints_20("r/x"), ending)
            assert assembler.waiting_since() is None
            for line in (first, second):
                assert hear(assembler, line) == []
                assert assembler.waiting_since() == first.ts_ns
            (fact, *_) = hear(assembler, end)
            assert isinstance(fact.body, HintsGenerated)
            assert (fact.ts_ns, list(fact.body.hints)) == (first.ts_ns, ["cpu", "r/x"])
            assert assembler.waiting_since() in (None, end.ts_ns)

    def test_pod_scope(self) -> None:
        """One decision; an affinity for each container says it again."""
        best = 'bestHint={"NUMANodeAffinity":1,"Preferred":true} pod="ns/p"'
        facts = run(
            lines(
                'topology_manager.go "Creating topology manager with policy per scope" '
                'topologyPolicyName="restricted" topologyScopeName="pod"',
                'scope_pod.go "TopologyHints" hints={"r/x":[{"NUMANodeAffinity":1,"Preferred":'
                'true}]} pod="ns/p"',
                f'scope_pod.go "PodTopologyHint" {best}',
                f'scope_pod.go "Best TopologyHint" {best}',
                f'scope_pod.go "Topology Affinity" {best} containerName="one"',
                f'+3s scope_pod.go "Topology Affinity" {best} containerName="two"',
            ),
            u="ns/p",
        )
        (generated,) = bodies(facts, HintsGenerated)
        (decided,) = bodies(facts, AffinityDecided)
        assert generated.container is None
        assert (decided.container, decided.admit, decided.policy) == (None, True, "restricted")

    def test_pod_scope_of_1_20(self) -> None:
        """The same in free text."""
        facts = run(
            lines(
                f"scope_pod.go {TAG} TopologyHints for pod 'p_ns(u)': map[r/x:[{{10 true}}]]",
                f"scope_pod.go {TAG} PodTopologyHint: {{10 true}}",
                f"scope_pod.go {TAG} Best TopologyHint for (pod: p_ns(u)): {{10 true}}",
                f"scope_pod.go {TAG} Topology Affinity for (pod: p_ns(u) container: c): "
                "{10 true}",
            )
        )
        (decided,) = of_kind(facts, AffinityDecided)
        assert isinstance(decided.body, AffinityDecided)
        assert (decided.body.pod, decided.body.container) == ("p", None)
        assert decided.body.hint.numa_nodes == (1,)
        assert len(decided.evidence) == 3

    def test_1_19_names_the_pod_in_two_ways(self) -> None:
        """By its name before the decision, by its UID after it."""
        uid = "36aa1f99-e71c-4fcf-b3f7-3254b6127099"
        known = BundleContext(node="n")
        known.learn_uid("ns", "p", uid, 0, FILE)
        facts = feed(
            TopologyAssembler(known),
            lines(
                f"topology_manager.go {TAG} Creating topology manager with single-numa-node policy",
                f"topology_manager.go {TAG} TopologyHints for pod 'p', container 'c': "
                "map[r/x:[{01 true}]]",
                f"topology_manager.go {TAG} ContainerTopologyHint: {{01 true}}",
                f"topology_manager.go {TAG} Topology Affinity for (pod: {uid} container: c): "
                "{01 true}",
            ),
        )
        (decided,) = bodies(facts, AffinityDecided)
        assert (decided.namespace, decided.pod, decided.pod_uid) == ("ns", "p", uid)
        assert (decided.policy, decided.admit) == ("single-numa-node", True)

    def test_the_same_container_admitted_twice(self) -> None:
        """A restart asks again: two decisions."""
        once = (
            hints_20(),
            f"scope_container.go {TAG} ContainerTopologyHint: {{01 true}}",
            f"scope_container.go {TAG} Topology Affinity for (pod: p_ns(u) container: c): "
            "{01 true}",
        )
        facts = run(lines(*once, *once))
        assert len(bodies(facts, HintsGenerated)) == len(bodies(facts, AffinityDecided)) == 2

    def test_a_log_that_begins_in_the_middle(self) -> None:
        """A merged hint that names nobody waits for one that does."""
        facts = run(
            lines(
                f"scope_container.go {TAG} ContainerTopologyHint: {{01 true}}",
                f"scope_container.go {TAG} Topology Affinity for (pod: p_ns(u) container: c): "
                "{01 true}",
            )
        )
        (decided,) = of_kind(facts, AffinityDecided)
        assert (decided.cause, len(decided.evidence)) == (None, 1)


class TestPolicy:
    """The log's policy beats the file's."""

    def decided(self, *texts: str) -> AffinityDecided:
        """A decision after these lines, with a configuration file of policy ``restricted``."""
        config = KubeletConfigFile(at("01:00:00"), {"topologyManagerPolicy": "restricted"}, FILE)
        late = KubeletConfigFile(at("02:00:00"), {}, FILE)
        affinity = f"{TAG} Topology Affinity for (pod: p_ns(u) container: c): {{01 true}}"
        stream = lines(*texts, f"scope_container.go {affinity}")
        facts = feed(TopologyAssembler(context()), [config, *stream, *([late] if texts else [])])
        (body,) = bodies(facts, AffinityDecided)
        return body

    def test_from_the_file(self) -> None:
        """Nothing else tells."""
        assert self.decided().policy == "restricted"

    def test_from_the_log(self) -> None:
        """It is in force."""
        line = f"topology_manager.go {TAG} Creating topology manager with best-effort policy per"
        assert self.decided(line).policy == "best-effort"

    def test_none(self) -> None:
        """A message of its own."""
        line = 'topology_manager.go "Creating topology manager with none policy"'
        assert self.decided(line).policy == "none"
