"""The static policy: containers of Guaranteed pods that request whole CPUs get them alone.

Reserved CPUs are given to no container. All others run in the shared pool, which shrinks and
grows as CPUs are given and come back.

Source: v1.36.2 pkg/kubelet/cm/cpumanager/policy_static.go, under the names there
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from kubeledger.kubelet.cpumanager.cpu_assignment import take_by_topology
from kubeledger.kubelet.cpumanager.policy_options import (
    CPU,
    GuaranteedCPUs,
    PolicyOptionError,
    StaticPolicyOptions,
    new_static_policy_options,
    validate_static_policy_options,
)
from kubeledger.kubelet.cpumanager.state_checkpoint import State, StateError
from kubeledger.kubelet.cpumanager.topology import CPUTopology
from kubeledger.kubelet.kube.containermanager import (
    EMPTY_POOL_REASON,
    SMT_ALIGNMENT_REASON,
    AllocationError,
    CPUSet,
    cpus_in,
    text_of,
)
from kubeledger.kubelet.kube.maporder import MapOrder
from kubeledger.kubelet.kube.pod import Container, Pod, containers_of, is_sidecar
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.profile.resourcemanagers import ResourceManagerFacts
from kubeledger.kubelet.topologymanager.policy import Hints, ProviderHints, TopologyHint
from kubeledger.kubelet.topologymanager.resource_manager import leaves_to_later

STATIC: Final = "static"


class PolicyError(ValueError):
    """A configuration that the kubelet does not start with; the text is the kubelet's."""


def new_static_policy(
    topology: CPUTopology,
    reserved_count: int,
    reserved: CPUSet,
    options: Mapping[str, str],
    topology_policy: str,
    profile: KubeletProfile,
    order: MapOrder,
) -> StaticPolicy:
    """Make the policy.

    Args:
        reserved: which ones; none: any.

    Raises:
        PolicyError: options or reserved CPUs are refused.
    """
    facts = profile.resourcemanagers
    try:
        read = new_static_policy_options(options, facts, order)
        validate_static_policy_options(read, topology, topology_policy)
    except PolicyOptionError as error:
        raise PolicyError(f"new static policy error: {error}") from None
    if not reserved:
        with suppress(AllocationError):
            reserved = take_by_topology(topology, topology.cpus, reserved_count, read, facts)
    if reserved.bit_count() != reserved_count:
        raise PolicyError(
            "new static policy error: [cpumanager] unable to reserve the required amount of CPUs "
            f"(size of {text_of(reserved)} did not equal {reserved_count})"
        )
    if facts.free_cores_must_suffice and (unknown := reserved & ~topology.cpus):
        raise PolicyError(
            "new static policy error: [cpumanager] unable to build the reserved physical CPUs from "
            f"the reserved set: unknown CPU ID: {order.of(cpus_in(unknown))[0]}"
        )
    return StaticPolicy(topology, reserved, read, profile)


class StaticPolicy:
    """The policy of one kubelet process.

    Attributes:
        reserved: CPUs that no container gets.
        reserved_physical: all CPUs of their cores.
        cpus_to_reuse: pod UID -> CPUs that init containers of the pod that was last allocated
            for leave to its later containers.
    """

    def __init__(
        self,
        topology: CPUTopology,
        reserved: CPUSet,
        options: StaticPolicyOptions,
        profile: KubeletProfile,
    ) -> None:
        self._facts = profile.resourcemanagers
        self.topology = topology
        self.options = options
        self.cpus_to_reuse: dict[str, CPUSet] = {}
        self.guaranteed = GuaranteedCPUs(profile)
        self.reserved = self.reserved_physical = reserved
        if self._facts.free_cores_must_suffice:
            for members in topology.cores.values():
                if members & reserved:
                    self.reserved_physical |= members

    @property
    def accounted(self) -> CPUSet:
        """CPUs that a state holds all of, and that are the shared pool at first."""
        strict = self.options.strict_cpu_reservation
        return self.topology.cpus & ~self.reserved if strict else self.topology.cpus

    def validate_state(self, state: State, order: MapOrder) -> None:
        """Refuse a state that does not fit the machine or the reserved CPUs; fill an empty one.

        Raises:
            StateError: it does not fit.
        """
        pool, reserved, machine = state.default, self.reserved, self.accounted
        strict = self.options.strict_cpu_reservation
        if not pool:
            if state.assignments:
                raise StateError("default cpuset cannot be empty")
            state.set_default(machine)
            return
        if strict and reserved & pool:
            raise StateError(
                f'some of strictly reserved cpus: "{text_of(reserved & pool)}" are present in '
                f'defaultCpuSet: "{text_of(pool)}"'
            )
        if not strict and reserved & ~pool:
            raise StateError(
                f'not all reserved cpus: "{text_of(reserved)}" are present in defaultCpuSet: '
                f'"{text_of(pool)}"'
            )
        known, overlaps = pool, []
        for pod, held in state.assignments.items():
            for container, cpus in held.items():
                known |= cpus
                if pool & cpus:
                    overlaps.append((pod, container, cpus))
        if overlaps:
            pod, container, cpus = order.of(overlaps)[0]
            raise StateError(
                f'pod: {pod}, container: {container} cpuset: "{text_of(cpus)}" overlaps with '
                f'default cpuset "{text_of(pool)}"'
            )
        for cpus in state.pod_assignments.values():
            known |= cpus
        if known != machine:
            raise StateError(
                f'current set of available CPUs "{text_of(machine)}" doesn\'t match with CPUs in '
                f'state "{text_of(known)}"'
            )

    def available(self, state: State) -> CPUSet:
        """CPUs that may be given (``GetAvailableCPUs``)."""
        return state.default & ~self.reserved

    def allocate(
        self, state: State, pod: Pod, container: Container, affinity: TopologyHint
    ) -> None:
        """Give a container its CPUs, if it gets any alone.

        Args:
            state: changed in place.
            affinity: what the topology manager stored for it; only its nodes count.

        Raises:
            AllocationError: there are too few CPUs, or too few whole cores.
        """
        uid, name = pod.metadata.uid or "", container.name or ""
        count = self.guaranteed.of_container(pod, container)
        if not count or self.guaranteed.is_skipped(pod):
            return
        # Asked before it is seen that the container has its CPUs: so it may be refused them.
        self.enforce_smt_alignment(state, count)
        cpus = state.get(uid, name)
        if cpus is None:
            reusable = self.cpus_to_reuse.get(uid, 0)
            cpus = self.allocate_cpus(state, count, affinity.affinity, reusable)
            state.set(uid, name, cpus)
        self.update_cpus_to_reuse(pod, container, cpus)

    def enforce_smt_alignment(self, state: State, count: int) -> None:
        """With full-pcpus-only, refuse what cannot be given as whole cores."""
        if not self.options.full_physical_cpus_only:
            return
        size, facts = self.topology.cpu_group_size, self._facts
        uneven = f"requested {count} cpus not multiple cpus per core = {size}"
        if count % size:
            raise AllocationError(f"SMT Alignment Error: {uneven}", SMT_ALIGNMENT_REASON)
        if not facts.free_cores_must_suffice:
            return
        free = (state.default & ~self.reserved_physical).bit_count()
        if count > free:
            short = (
                f"not enough free physical CPUs: available physical CPUs = {free}, "
                f"requested CPUs = {count}, CPUs per core = {size}"
            )
            said = short if free or facts.smt_error_tells_free_cores_apart else uneven
            raise AllocationError(f"SMT Alignment Error: {said}", SMT_ALIGNMENT_REASON)

    def update_cpus_to_reuse(self, pod: Pod, container: Container, cpus: CPUSet) -> None:
        """CPUs of an init container are left to later ones, but not those of a sidecar."""
        uid = pod.metadata.uid or ""
        reusable = self.cpus_to_reuse.get(uid, 0)
        if leaves_to_later(pod, container, self._facts):
            self.cpus_to_reuse = {uid: reusable | cpus}
        else:
            self.cpus_to_reuse = {uid: reusable & ~cpus}

    def allocate_cpus(
        self, state: State, count: int, affinity: int | None, reusable: CPUSet
    ) -> CPUSet:
        """Take CPUs out of the shared pool: those of the affinity's NUMA nodes first."""
        allocatable = self.available(state) | reusable
        taken = 0
        if affinity is not None:
            aligned = self.aligned_cpus(affinity, allocatable)
            taken = self._take(aligned, min(count, aligned.bit_count()))
        taken |= self._take(allocatable & ~taken, count - taken.bit_count())
        state.set_default(state.default & ~taken)
        return taken

    def aligned_cpus(self, affinity: int, allocatable: CPUSet) -> CPUSet:
        """CPUs on the affinity's NUMA nodes, or with align-by-socket on the sockets of these."""
        nodes = self.topology.numa_nodes
        on_nodes = 0
        for node, members in nodes.items():
            if affinity >> node & 1:
                on_nodes |= members
        if not self.options.align_by_socket:
            return allocatable & on_nodes
        around = 0
        for members in self.topology.sockets.values():
            if members & on_nodes:
                around |= members
        return allocatable & around

    def _take(self, available: CPUSet, count: int) -> CPUSet:
        return take_by_topology(self.topology, available, count, self.options, self._facts)

    def allocate_pod(self, state: State, pod: Pod, affinity: TopologyHint) -> None:
        """Give a pod with resources of its own its CPUs, and its containers parts of them.

        Raises:
            AllocationError: there are too few, or nothing is left for a container that shares.
        """
        uid, guaranteed = pod.metadata.uid or "", self.guaranteed
        count = guaranteed.of_pod(pod)
        if not count:
            return
        if fault := guaranteed.empty_shared_pool(pod):
            raise AllocationError(fault, EMPTY_POOL_REASON)
        self.enforce_smt_alignment(state, count)
        whole = self.allocate_cpus(state, count, affinity.affinity, 0)
        state.set_pod(uid, whole)
        own: dict[str, CPUSet] = {}
        sidecars = 0
        for container in pod.spec.init_containers or ():
            name, asked = container.name or "", guaranteed.of_container(pod, container)
            if asked:
                own[name] = self._take(whole & ~sidecars, asked)
                if is_sidecar(container):
                    sidecars |= own[name]
            elif not is_sidecar(container):
                own[name] = whole & ~sidecars
        shared = whole & ~sidecars
        for container in pod.spec.containers or ():
            if asked := guaranteed.of_container(pod, container):
                cpus = own[container.name or ""] = self._take(shared, asked)
                shared &= ~cpus
        for container in containers_of(pod):
            name = container.name or ""
            state.set(uid, name, own.get(name, shared))

    def remove_container(self, state: State, pod: str, container: str) -> None:
        """Take a container's CPUs back; those of a pod as a whole go with its last container."""
        cpus = state.get(pod, container)
        if cpus is None:
            return
        state.delete(pod, container)
        whole = state.pod_assignments.get(pod)
        if whole is not None:
            if not state.assignments.get(pod):
                state.set_default(state.default | whole)
                state.delete_pod(pod)
            return
        siblings = state.siblings(pod, container)
        state.set_default(state.default | returned_cpus(cpus, siblings, self._facts))

    def get_topology_hints(self, state: State, pod: Pod, container: Container) -> ProviderHints:
        """Where a container can get its CPUs; None: it has no preference."""
        count = self.guaranteed.of_container(pod, container)
        if not count or self.guaranteed.is_skipped(pod):
            return None
        uid = pod.metadata.uid or ""
        allocated = state.get(uid, container.name or "")
        if allocated is not None:
            fits = allocated.bit_count() == count
            return {CPU: self.generate_hints(allocated, 0, count) if fits else ()}
        reusable = self.cpus_to_reuse.get(uid, 0) if self._facts.hints_count_reusable_cpus else 0
        return {CPU: self.generate_hints(self.available(state), reusable, count)}

    def get_pod_topology_hints(self, state: State, pod: Pod) -> ProviderHints:
        """Where a pod can get the CPUs of all its containers; None: it has no preference."""
        guaranteed = self.guaranteed
        count = guaranteed.of_pod(pod)
        if not count or guaranteed.is_skipped(pod):
            return None
        if guaranteed.is_managed_as_a_whole(pod) and guaranteed.empty_shared_pool(pod):
            return {CPU: ()}
        uid = pod.metadata.uid or ""
        assigned = 0
        for container in containers_of(pod):
            allocated = state.get(uid, container.name or "")
            if allocated is not None:
                if allocated.bit_count() != guaranteed.of_container(pod, container):
                    return {CPU: ()}
                assigned |= allocated
        if assigned.bit_count() == count:
            return {CPU: self.generate_hints(assigned, 0, count)}
        reusable = self.cpus_to_reuse.get(uid, 0) | assigned
        return {CPU: self.generate_hints(self.available(state), reusable, count)}

    def generate_hints(self, available: CPUSet, reusable: CPUSet, count: int) -> Hints:
        """Every set of NUMA nodes that has enough free CPUs, and all that are used again.

        Preferred are those with as few nodes as would do if all CPUs were free, with
        align-by-socket also those on as few sockets.

        Source: v1.36.2 pkg/kubelet/cm/cpumanager/policy_static.go generateCPUTopologyHints,
            isHintSocketAligned
        """
        masks = self.topology.node_masks
        fewest = len(self.topology.numa_nodes)
        fewest = next((size for size, cpus, *_ in masks if cpus.bit_count() >= count), fewest)
        missing = count - reusable.bit_count()
        able = [
            hint
            for hint in masks
            if (available & hint[1]).bit_count() >= missing and not reusable & ~hint[1]
        ]
        if not self.options.align_by_socket:
            return tuple([yes if size == fewest else no for size, _, no, yes in able])
        topology = self.topology
        per_socket = len(topology.numa_nodes) // (topology.num_sockets or 1)
        sockets = -(-fewest // per_socket) if per_socket else None
        return tuple(
            [
                yes if size == fewest or topology.sockets_of(cpus) == sockets else no
                for size, cpus, no, yes in able
            ]
        )


def returned_cpus(cpus: CPUSet, siblings: CPUSet, facts: ResourceManagerFacts) -> CPUSet:
    """What a container gives back to the shared pool.

    Args:
        siblings: those of its pod's other containers.
    """
    return cpus & ~siblings if facts.release_spares_siblings else cpus
