"""The topology manager of a simulated kubelet: settings, admissions, and what it writes down.

Its CPU and its memory manager are a :class:`ResourceLoop` each.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, cast

from kubeledger.kubelet.kube.admission import AllocationError
from kubeledger.kubelet.kube.containermap import ContainerRef
from kubeledger.kubelet.kube.pod import Container, Pod
from kubeledger.kubelet.topologymanager.bitmask import bits_of
from kubeledger.kubelet.topologymanager.hint import ProviderHints, TopologyHint
from kubeledger.kubelet.topologymanager.options import PREFER_CLOSEST
from kubeledger.kubelet.topologymanager.policies import Policy
from kubeledger.kubelet.topologymanager.resource_manager import ResourceManager
from kubeledger.kubelet.topologymanager.scope import AFFINITY_REASON, Aligned, HintProvider, Scope
from kubeledger.model.bodies.topologymanager import AffinityDecided, Hint, HintsGenerated
from kubeledger.model.record import Body
from kubeledger.simulate.engine.kubelet import Kubelet, Simulation
from kubeledger.simulate.engine.world import SimPod

Held = TypeVar("Held")
Names = dict[str, Any]
"""Fields of a record that say whose it is: names, pod UID, container."""
Nodes = tuple[int, ...] | None

_NEAR, _FAR = 10, 21
"""Distances as the firmware of most machines with two or more nodes has them."""


def policy_of(sim: Simulation) -> tuple[Policy, str]:
    """The policy with what it knows of the machine, and the scope."""
    nodes = sim.world.numa_nodes
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
    sim, devices = kubelet.sim, kubelet.devices.provider(pod)
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


def _write_affinity(sim: Simulation, pod: SimPod, step: Aligned, policy: Policy) -> None:
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

    def listen(self, sim: Simulation) -> None:
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


class ResourceLoop(HintProvider, Generic[M]):
    """A manager of one kubelet process; a hint provider of its topology manager.

    With a policy that gives nothing there is none, and nothing is recorded.
    """

    def __init__(self, kubelet: Kubelet) -> None:
        self.kubelet, self.sim = kubelet, kubelet.sim
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
            self.manager.sources_ready = self.kubelet.pods.sources_ready
            self.manager.active_pods = self.sim.world.active_with(pod)
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
