"""The CPU manager of one kubelet process, with the static policy behind it.

Source: v1.36.2 pkg/kubelet/cm/cpumanager/cpu_manager.go, under the names there
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from kubeledger.kubelet.cpumanager.policy_static import (
    STATIC,
    PolicyError,
    StaticPolicy,
    new_static_policy,
)
from kubeledger.kubelet.cpumanager.state_checkpoint import (
    Assignments,
    State,
    file_text,
    restore_state,
)
from kubeledger.kubelet.cpumanager.topology import CPUTopology, MachineInfo
from kubeledger.kubelet.kube.containermanager import ContainerMap, ContainerRef, CPUSet, parse
from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder
from kubeledger.kubelet.kube.pod import Container, Pod, containers_of
from kubeledger.kubelet.kube.resources import NANOS, Amount, milli_of
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.topologymanager.resource_manager import ResourceManager

ContainerState = Literal["", "waiting", "running", "terminated"]
Statuses = Mapping[str, Mapping[str, tuple[ContainerState, str]]]
"""Pod UID -> container -> its state and ID, as the status manager has them."""


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """What a CPU manager is made of.

    Attributes:
        reserved_cpu: CPU in the node's reservation; None: there is none.
        reserved_system_cpus: CPUs to reserve; none: any.
    """

    machine: MachineInfo
    reserved_cpu: Amount = None
    reserved_system_cpus: CPUSet = 0
    options: Mapping[str, str] = {}
    topology_policy: str = "none"


def configuration_of(
    setting: Callable[[str], Any], machine: MachineInfo, reserved_cpu: Amount
) -> Configuration:
    """By the settings of a kubelet.

    Args:
        setting: name of a KubeletConfiguration field -> its JSON value; None where it is not set.

    Raises:
        ValueError: ``reservedSystemCPUs`` is not a set of CPUs; with Go's words.
    """
    options = setting("cpuManagerPolicyOptions") or {}
    return Configuration(
        machine=machine,
        reserved_cpu=reserved_cpu,
        reserved_system_cpus=parse(setting("reservedSystemCPUs") or ""),
        options={str(name): str(value) for name, value in options.items()},
        topology_policy=setting("topologyManagerPolicy") or "none",
    )


def new_policy(
    configuration: Configuration, profile: KubeletProfile, order: MapOrder = FIRST_ORDER
) -> StaticPolicy:
    """The static policy of a manager.

    Raises:
        DiscoverError: the machine has no CPUs that can be told apart.
        PolicyError: the kubelet does not start with it.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/cpu_manager.go NewManager
    """
    return new_static_policy(
        CPUTopology(configuration.machine, profile.resourcemanagers),
        _reserved_count(configuration.reserved_cpu),
        configuration.reserved_system_cpus,
        configuration.options,
        configuration.topology_policy,
        profile,
        order,
    )


class Manager(ResourceManager):
    """The CPU manager.

    Differs: an allocation's NUMA affinity is an argument, where the kubelet asks the topology
        manager's store.
    """

    policy: StaticPolicy
    state: State

    def __init__(
        self,
        configuration: Configuration,
        profile: KubeletProfile,
        state_file: str | None = None,
        containers: Mapping[str, ContainerRef] | None = None,
        order: MapOrder = FIRST_ORDER,
    ) -> None:
        """Make and start a manager.

        Args:
            state_file: text of ``cpu_manager_state``; None: there is none.
            containers: ID -> pod UID and container, of those that the runtime lists.

        Raises:
            ValueError: the kubelet does not start with this; the text is its own.

        Source: v1.36.2 pkg/kubelet/cm/cpumanager/cpu_manager.go NewManager, Start
        """
        self.policy = new_policy(configuration, profile, order)
        super().__init__(self.policy.guaranteed, order)
        self.containers = ContainerMap(containers or {})
        self.looks_at_map = self.facts.ended_containers_leave_the_map
        self._updated: dict[ContainerRef, CPUSet] = {}
        if state_file is None:
            self.state = State()
        else:
            self.state = restore_state(state_file, STATIC, self.containers, self.facts, order)
        self._file, self._written = state_file, self.state.revision
        self.restored()
        self.policy.validate_state(self.state, order)

    def restored(self) -> None:
        """The state is what the file held, and was not looked at yet."""

    @property
    def held(self) -> Assignments:
        """CPUs by pod UID and container."""
        return self.state.assignments

    @property
    def state_file(self) -> str | None:
        """Text of ``cpu_manager_state`` as it is now."""
        if self._written != self.state.revision:
            with_pods = self.facts.pod_level_managers
            self._file = file_text(STATIC, self.state, with_pods=with_pods)
            self._written = self.state.revision
        return self._file

    def get_cpu_affinity(self, pod: str, container: str) -> CPUSet:
        """CPUs that a container runs on: its own, or the shared pool."""
        return self.state.get_or_default(pod, container)

    def add_container(self, pod: Pod, container: Container, container_id: str) -> None:
        """A container is started, on its CPUs."""
        ref = (pod.metadata.uid or "", container.name or "")
        cpus = self.state.get(*ref)
        if cpus is not None:
            self._updated[ref] = cpus
        if self.facts.cpus_kept_on_failed_update:
            self.containers[container_id] = ref

    def remove_container(self, container_id: str) -> None:
        """A container is gone; one that is not known changes nothing."""
        ref = self.containers.get(container_id)
        if ref is not None:
            self.release(ref)
            del self.containers[container_id]

    def reconcile_state(
        self, statuses: Statuses, failing: Iterable[str] = ()
    ) -> list[tuple[str, CPUSet]]:
        """Tell the runtime of the CPUs of running containers.

        Args:
            failing: IDs of containers whose update fails.

        Returns:
            (n,) container IDs and CPUs that the runtime took, in order.
        """
        self.remove_stale_state()
        updates: list[tuple[str, CPUSet]] = []
        for pod in self.active_pods:
            uid = pod.metadata.uid or ""
            for container in containers_of(pod):
                ref = (uid, container.name or "")
                state, container_id = statuses.get(uid, {}).get(ref[1], ("", ""))
                if state != "running" or not container_id:
                    continue
                self.containers[container_id] = ref
                cpus = self.state.get_or_default(*ref)
                known = (
                    self._updated.get(ref) if self.facts.only_changed_cpusets_are_updated else None
                )
                if not cpus or cpus == known or container_id in failing:
                    continue
                self._updated[ref] = cpus
                updates.append((container_id, cpus))
        return updates

    def release(self, ref: ContainerRef) -> None:
        super().release(ref)
        self._updated.pop(ref, None)


def _reserved_count(reserved: Amount) -> int:
    """CPUs to reserve, rounded up."""
    if reserved is None:
        raise PolicyError(
            "[cpumanager] unable to determine reserved CPU resources for static policy"
        )
    nanos = NANOS[reserved]
    if not nanos:
        raise PolicyError(
            "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be "
            "greater than zero"
        )
    return -(-milli_of(nanos) // 1000)
