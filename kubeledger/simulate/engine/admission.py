"""Admission in a simulated kubelet: the pod as it gets it, predicates, and the topology manager."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec

from kubeledger.kubelet.kube.containermanager import AllocationError, ContainerRef
from kubeledger.kubelet.kube.pod import (
    Container,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    Taint,
    containers_of,
)
from kubeledger.kubelet.kube.pod import Pod as ApiPod
from kubeledger.kubelet.kube.podclass import is_critical_pod, pod_qos
from kubeledger.kubelet.kube.resources import ResourceList
from kubeledger.kubelet.kuberuntime.objects import Pod as SyncedPod
from kubeledger.kubelet.lifecycle import predicate as lifecycle
from kubeledger.kubelet.lifecycle.nodeinfo import NodeInfo
from kubeledger.kubelet.lifecycle.predicate import PodAdmitResult
from kubeledger.kubelet.preemption import preemption
from kubeledger.kubelet.preemption.preemption import PreemptionOutcome, Requirements
from kubeledger.kubelet.prober.objects import Pod as ProbedPod
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.topologymanager.policy import Policy, ProviderHints, TopologyHint, bits_of
from kubeledger.kubelet.topologymanager.resource_manager import ResourceManager
from kubeledger.kubelet.topologymanager.scope import (
    AFFINITY_REASON,
    PREFER_CLOSEST,
    Aligned,
    HintProvider,
    Scope,
)
from kubeledger.model.bodies.resourcemanagers import AffinityDecided, Hint, HintsGenerated
from kubeledger.model.record import Body
from kubeledger.model.units import NS_PER_S, format_ts, parse_ts
from kubeledger.simulate.engine.kubelet import Kubelet, Loop
from kubeledger.simulate.engine.plan import PlannedPod
from kubeledger.simulate.engine.schedule import Draws
from kubeledger.simulate.engine.world import SimContainer, SimPod

if TYPE_CHECKING:
    from kubeledger.simulate.engine.sim import Sim

_SOURCE = "kubernetes.io/config.source"
_SIDECAR = "Always"
P = TypeVar("P", ApiPod, SyncedPod)


def sim_pod(planned: PlannedPod, index: int, now_ns: int, profile: KubeletProfile) -> SimPod:
    """The pod that a planned one becomes when it arrives."""
    metadata = planned.manifest["metadata"]
    spec: dict[str, Any] = planned.manifest["spec"]
    created = metadata.get("creationTimestamp") or format_ts(now_ns // NS_PER_S * NS_PER_S)
    document = _document(planned.manifest, planned.source, created)
    api = msgspec.convert(document, ApiPod)
    sidecars = profile.prober.restartable_init_containers
    containers = [
        SimContainer(
            name=c["name"], init=True, sidecar=sidecars and c.get("restartPolicy") == _SIDECAR
        )
        for c in spec.get("initContainers") or ()
    ]
    containers += [SimContainer(name=c["name"]) for c in spec["containers"]]
    return SimPod(
        index=index,
        namespace=document["metadata"]["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        source=planned.source,
        spec=spec,
        labels=document["metadata"]["labels"],
        annotations=document["metadata"]["annotations"],
        api=api,
        probed=msgspec.convert(document, ProbedPod),
        synced=msgspec.convert(document, SyncedPod),
        qos_class=pod_qos(api, status_wins=False, pod_level=profile.admission.pod_level_resources),
        added_ns=now_ns,
        desired=api,
        claims=planned.claims,
        containers=containers,
    )


def change_spec(pod: SimPod, manifest: dict[str, Any]) -> None:
    """Give a pod another spec; what it asks for is not allocated yet."""
    allocated = pod.api
    document = _document(manifest, pod.source, pod.probed.metadata.creation_timestamp)
    pod.spec, pod.generation = manifest["spec"], pod.generation + 1
    pod.desired, pod.synced = (
        msgspec.convert(document, ApiPod),
        msgspec.convert(document, SyncedPod),
    )
    give(pod, allocated)


def give(pod: SimPod, allocated: ApiPod) -> None:
    """Allocate to a pod what another version of it asks for.

    Its status shows what its containers had, until they have that.
    """
    pod.api = _with_resources(pod.desired, allocated)
    pod.synced = _with_resources(pod.synced, allocated)


def _with_resources(pod: P, given: ApiPod) -> P:
    """A pod whose containers have the resources of another version of it."""
    spec = pod.spec
    resources = {c.name: c.resources for c in containers_of(given)}
    lists = {
        name: tuple(
            msgspec.structs.replace(c, resources=resources.get(c.name, c.resources)) for c in each
        )
        for name in ("containers", "init_containers")
        if (each := getattr(spec, name)) is not None
    }
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, **lists))


def _document(manifest: dict[str, Any], source: str, created: str | None) -> dict[str, Any]:
    metadata = manifest["metadata"]
    return {
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata.get("namespace", "default"),
            "uid": metadata["uid"],
            "labels": metadata.get("labels") or {},
            "annotations": {**(metadata.get("annotations") or {}), _SOURCE: source},
            "creationTimestamp": created,
        },
        "spec": manifest["spec"],
    }


def created_ns(pod: SimPod) -> int | None:
    """When the object was made; None for a static pod."""
    created = pod.probed.metadata.creation_timestamp
    return None if created is None or pod.source == "file" else parse_ts(created)


# The topology manager of a simulated kubelet: settings, admissions, and what it writes down.
#
# Its CPU and its memory manager are a :class:`ResourceLoop` each.

Held = TypeVar("Held")
Names = dict[str, Any]
"""Fields of a record that say whose it is: names, pod UID, container."""
Nodes = tuple[int, ...] | None

_NEAR, _FAR = 10, 21
"""Distances as the firmware of most machines with two or more nodes has them."""


def policy_of(sim: Sim) -> tuple[Policy, str]:
    """The policy with what it knows of the machine, and the scope."""
    nodes = sim.plan.node.numa_nodes
    options = sim.setting("topologyManagerPolicyOptions") or {}
    closest = str(options.get(PREFER_CLOSEST, "")).lower() in ("1", "t", "true")
    distances = {a: [_NEAR if a == b else _FAR for b in nodes] for a in nodes}
    policy = Policy(
        name=sim.setting("topologyManagerPolicy") or "none",
        numa_nodes=nodes,
        distances=distances if closest else None,
    )
    scope = sim.setting("topologyManagerScope") or "container"
    return policy, scope if sim.profile.topology.pod_scope else "container"


def admit(kubelet: Kubelet, pod: SimPod) -> tuple[str, str] | None:
    """Align and allocate for a pod; reason and message of a refusal."""
    sim, devices = kubelet.sim, kubelet.devices
    devices.shortages.clear()
    policy, name = policy_of(sim)
    scope = Scope(policy, name, [devices, kubelet.cpus, kubelet.numa_memory], sim.profile)
    for step in scope.walk(pod.api):
        if isinstance(step, Aligned):
            _write_affinity(sim, pod, step, policy)
        refusal = scope.refusal(pod.api, step)
        if refusal is not None:
            if refusal.reason == AFFINITY_REASON and devices.shortages:
                # The first one is the recorded reason of the refusal.
                sim.journal.write(devices.shortages[0])
            return refusal.reason, refusal.message
    return None


def _write_affinity(sim: Sim, pod: SimPod, step: Aligned, policy: Policy) -> None:
    """Write down the hints of all managers, and what the policy makes of them."""
    container = None if step.container is None else step.container.name
    generated = HintsGenerated(
        **pod.identity,
        container=container,
        hints={
            resource: None if each is None else tuple(map(_hint, each))
            for offered in step.hints
            for resource, each in (offered or {}).items()
        },
    )
    cause = sim.journal.write(generated)
    decided = AffinityDecided(
        **pod.identity,
        container=container,
        hint=_hint(step.best),
        policy=policy.name,
        admit=step.fits,
    )
    sim.journal.write(decided, cause=cause)


def _hint(hint: TopologyHint) -> Hint:
    nodes = None if hint.affinity is None else tuple(bits_of(hint.affinity))
    return Hint(numa_nodes=nodes, preferred=hint.preferred)


class Telling(ResourceManager, Generic[Held]):
    """A manager that writes down what it gives and takes back."""

    def listen(self, sim: Sim) -> None:
        """Write to the journal of a simulation, whose pods are known."""
        self.sim = sim
        self._names = {uid: (pod.namespace, pod.name) for uid, pod in sim.world.pods.items()}

    def meet(self, pod: Pod) -> None:
        """A pod asks for something; its records name it, also when it is gone."""
        names = pod.metadata.namespace or "", pod.metadata.name or ""
        self._names[pod.metadata.uid or ""] = names

    def release(self, ref: ContainerRef) -> None:
        """Take back what a container has."""
        had = self.held_by(ref)
        super().release(ref)
        if had is not None:
            self.sim.journal.write(self.released(self._names_of_record(ref), had))
        if ref[0] not in self.held:
            self._names.pop(ref[0], None)

    def give(self, pod: Pod, container: Container, affinity: TopologyHint) -> None:
        """Give a container what it asks for, if it gets any alone.

        Raises:
            AllocationError: there is too little.
        """
        uid, name = pod.metadata.uid or "", container.name or ""
        self.meet(pod)
        names, before = self._names_of_record((uid, name)), self.held_by((uid, name))
        nodes = None if affinity.affinity is None else tuple(bits_of(affinity.affinity))
        try:
            self.allocate(pod, container, affinity)
        except AllocationError as error:
            self.sim.journal.write(self.failed(names, pod, container, nodes, str(error)))
            raise
        got = self.held_by((uid, name))
        if got is not None and before is None:
            self.sim.journal.write(self.given(names, nodes, got))

    def held_by(self, ref: ContainerRef) -> Held | None:
        return cast("Held | None", self.held.get(ref[0], {}).get(ref[1]))

    @abstractmethod
    def released(self, names: Names, had: Held) -> Body:
        """The record of what a container gave back."""

    @abstractmethod
    def failed(
        self, names: Names, pod: Pod, container: Container, nodes: Nodes, error: str
    ) -> Body:
        """The record of an allocation that failed."""

    @abstractmethod
    def given(self, names: Names, nodes: Nodes, got: Held) -> Body:
        """The record of what a container got."""

    def _names_of_record(self, ref: ContainerRef) -> Names:
        namespace, pod = self._names.get(ref[0], (None, None))
        return {"namespace": namespace, "pod": pod, "pod_uid": ref[0], "container": ref[1]}


M = TypeVar("M", bound=Telling[Any])


class ResourceLoop(Loop, HintProvider, Generic[M]):
    """A manager of one kubelet process; a hint provider of its topology manager.

    With a policy that gives nothing there is none, and nothing is recorded.
    """

    def __init__(self, kubelet: Kubelet) -> None:
        super().__init__(kubelet)
        self.manager: M | None = None

    @abstractmethod
    def save(self) -> None:
        """Write the state file."""

    @contextmanager
    def ready(self, pod: Pod | None) -> Iterator[M | None]:
        """The manager, told of what it asks the kubelet for; ``pod`` is being admitted.

        What it changes is in its file then, also where it only gives hints: what is stale goes
        first, and each change is written.

        Source: v1.36.2 pkg/kubelet/cm/cpumanager/cpu_manager.go GetTopologyHints,
            state/state_checkpoint.go Delete; memorymanager the same
        """
        if self.manager is not None:
            self.manager.sources_ready = self._kubelet.pods.sources_ready
            self.manager.active_pods = self._sim.world.active_with(pod)
        try:
            yield self.manager
        finally:
            self.save()

    def get_topology_hints(self, pod: Pod, container: Container) -> ProviderHints:
        with self.ready(pod) as manager:
            return None if manager is None else manager.get_topology_hints(pod, container)

    def get_pod_topology_hints(self, pod: Pod) -> ProviderHints:
        with self.ready(pod) as manager:
            return None if manager is None else manager.get_pod_topology_hints(pod)

    def allocate(self, pod: Pod, container: Container, affinity: TopologyHint) -> None:
        """Give a container what it asks for; see ``Telling.give``."""
        with self.ready(pod) as manager:
            if manager is not None:
                manager.give(pod, container, affinity)

    def allocate_pod(self, pod: Pod, affinity: TopologyHint) -> None:
        """Give a pod as a whole what it asks for, which only the state file shows."""
        with self.ready(pod) as manager:
            if manager is not None:
                manager.meet(pod)
                manager.allocate_pod(pod, affinity)


class Answer(msgspec.Struct, kw_only=True):
    """What came of the predicates.

    Attributes:
        result: with the victims of a preemption.
        insufficient: what was missing, where preemption was asked.
        error: why preemption found no pod; empty if it did, or did not run.
    """

    result: PodAdmitResult
    insufficient: Requirements = ()
    error: str = ""


def counted_pods(kubelet: Kubelet, pod: SimPod) -> list[SimPod]:
    """Pods that count when ``pod`` is admitted; it is not among them."""
    sim = kubelet.sim
    others = [other for other in sim.world.active_pods() if other.uid != pod.uid]
    if sim.plan.shuffle:
        _shuffle(others, sim.draws.stream(f"pods/{kubelet.run}/{pod.uid}"))
    return others


def node_object(kubelet: Kubelet) -> Node:
    """The node as the kubelet's own status has it, devices in use included."""
    sim = kubelet.sim
    allocatable: ResourceList = {**sim.machine.allocatable, **kubelet.devices.listed()}
    return Node(
        metadata=ObjectMeta(name=sim.plan.node.name, labels=dict(sim.machine.labels)),
        status=NodeStatus(allocatable=allocatable),
        spec=NodeSpec(taints=msgspec.convert(sim.plan.node.taints, tuple[Taint, ...])),
    )


def predicates(kubelet: Kubelet, pod: SimPod, wanted: Pod | None = None) -> Answer:
    """Whether a pod fits, and for a critical one which pods to kill.

    Args:
        wanted: as it is to be, where it is to be resized; None: as it is.

    Raises:
        BadInputError: a quantity of a pod cannot be asked for.
    """
    facts, api = kubelet.sim.profile.admission, wanted or pod.api
    others = [other.counted for other in counted_pods(kubelet, pod)]
    info = NodeInfo(node_object(kubelet), others, facts)
    answer = Answer(result=PodAdmitResult(True, "", "", ()))

    def recover(missing: Requirements) -> PreemptionOutcome:
        answer.insufficient = missing
        outcome = preemption.decide(api, others, facts, missing)
        answer.error = outcome.error
        return outcome

    recovery = recover if is_critical_pod(api) else None
    answer.result = lifecycle.decide(api, info, recovery)
    return answer


def _shuffle(pods: list[SimPod], draws: Draws) -> None:
    for index in range(len(pods) - 1, 0, -1):
        other = draws.below(index + 1)
        pods[index], pods[other] = pods[other], pods[index]
