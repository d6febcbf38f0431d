"""What the static policy goes by: its options, and how many CPUs a pod's spec gets alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from kubeledger.kubelet.cpumanager.topology import CPUTopology
from kubeledger.kubelet.kube.gotexts import parse_bool, quoted
from kubeledger.kubelet.kube.maporder import MapOrder
from kubeledger.kubelet.kube.pod import Container, Pod, is_sidecar
from kubeledger.kubelet.kube.resources import NANOS, Amount, milli_of, units_of
from kubeledger.kubelet.profile.resourcemanagers import ResourceManagerFacts
from kubeledger.kubelet.topologymanager.resource_manager import PodAmounts, runs_on

FULL_PCPUS_ONLY: Final = "full-pcpus-only"
DISTRIBUTE_NUMA: Final = "distribute-cpus-across-numa"
ALIGN_BY_SOCKET: Final = "align-by-socket"
DISTRIBUTE_CORES: Final = "distribute-cpus-across-cores"
STRICT_RESERVATION: Final = "strict-cpu-reservation"
PREFER_UNCORE: Final = "prefer-align-cpus-by-uncorecache"

_SINGLE_NUMA_NODE: Final = "single-numa-node"
_FIELDS: Final = {
    FULL_PCPUS_ONLY: "full_physical_cpus_only",
    DISTRIBUTE_NUMA: "distribute_cpus_across_numa",
    ALIGN_BY_SOCKET: "align_by_socket",
    DISTRIBUTE_CORES: "distribute_cpus_across_cores",
    STRICT_RESERVATION: "strict_cpu_reservation",
    PREFER_UNCORE: "prefer_align_cpus_by_uncore_cache",
}
_LOGGED_AS: Final = {
    FULL_PCPUS_ONLY: "FullPhysicalCPUsOnly",
    DISTRIBUTE_NUMA: "DistributeCPUsAcrossNUMA",
    ALIGN_BY_SOCKET: "AlignBySocket",
    DISTRIBUTE_CORES: "DistributeCPUsAcrossCores",
    STRICT_RESERVATION: "StrictCPUReservation",
    PREFER_UNCORE: "PreferAlignByUncoreCacheOption",
}
_EXCLUSIVE: Final = (
    (FULL_PCPUS_ONLY, DISTRIBUTE_CORES),
    (DISTRIBUTE_NUMA, DISTRIBUTE_CORES),
    (PREFER_UNCORE, DISTRIBUTE_CORES),
    (PREFER_UNCORE, DISTRIBUTE_NUMA),
)


class PolicyOptionError(ValueError):
    """Options that the kubelet does not start with; the text is the kubelet's."""


class StaticPolicyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the static policy, each on or off."""

    full_physical_cpus_only: bool = False
    distribute_cpus_across_numa: bool = False
    align_by_socket: bool = False
    distribute_cpus_across_cores: bool = False
    strict_cpu_reservation: bool = False
    prefer_align_cpus_by_uncore_cache: bool = False

    @classmethod
    def of_logged(cls, names: Collection[str]) -> StaticPolicyOptions:
        """By the names of those that are on, as the kubelet logs them."""
        return cls(**{_FIELDS[name]: logged in names for name, logged in _LOGGED_AS.items()})

    @property
    def logged(self) -> tuple[str, ...]:
        """Names of those that are on, as the kubelet logs them, sorted."""
        return tuple(sorted(_LOGGED_AS[name] for name in self.names))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of those that are on, as they are configured."""
        return tuple(name for name, field in _FIELDS.items() if getattr(self, field))


def new_static_policy_options(
    options: Mapping[str, str], facts: ResourceManagerFacts, order: MapOrder
) -> StaticPolicyOptions:
    """Read the options.

    Raises:
        PolicyOptionError: one that is unknown, whose gate is off or that has a bad value (of
            several by chance), or two that exclude each other.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/policy_options.go NewStaticPolicyOptions
    """
    read: dict[str, bool] = {}
    faults: list[PolicyOptionError] = []
    for name, value in options.items():
        try:
            _check_available(name, value, facts)
            read[name] = parse_bool(value)
        except PolicyOptionError as fault:
            faults.append(fault)
        except ValueError as fault:
            faults.append(PolicyOptionError(f"bad value for option {quoted(name)}: {fault}"))
    if faults:
        raise order.of(faults)[0]
    for one, other in _EXCLUSIVE:
        if read.get(one) and read.get(other):
            raise PolicyOptionError(
                f"static policy options {one} and {other} can not be used at the same time"
            )
    return StaticPolicyOptions(**{_FIELDS[name]: on for name, on in read.items()})


def validate_static_policy_options(
    options: StaticPolicyOptions, topology: CPUTopology, topology_policy: str
) -> None:
    """Refuse options that do not fit the machine or the topology manager's policy.

    Raises:
        PolicyOptionError: they do not.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/policy_options.go ValidateStaticPolicyOptions
    """
    if not options.align_by_socket:
        return
    if topology_policy == _SINGLE_NUMA_NODE:
        raise PolicyOptionError(
            f"Topolgy manager {_SINGLE_NUMA_NODE} policy is incompatible with CPUManager "
            f"{ALIGN_BY_SOCKET} policy option"
        )
    if topology.num_sockets > len(topology.numa_nodes):
        raise PolicyOptionError(
            "Align by socket is not compatible with hardware where number of sockets are more "
            "than number of NUMA"
        )


def _check_available(name: str, value: str, facts: ResourceManagerFacts) -> None:
    """Refuse an option that the version does not know, or whose gate is off.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/policy_options.go CheckPolicyOptionAvailable
    """
    level = _level(name, facts)
    if not level:
        if facts.cpu_options_have_gates:
            raise PolicyOptionError(f"unknown CPU Manager Policy option: {quoted(name)}")
        raise PolicyOptionError(f"unsupported cpumanager option: {quoted(name)} ({value})")
    gated_off = {"Alpha": not facts.cpu_alpha_options, "Beta": not facts.cpu_beta_options}
    if facts.cpu_options_have_gates and gated_off.get(level):
        raise PolicyOptionError(
            f"CPU Manager Policy {level}-level Options not enabled, but option {quoted(name)} "
            "provided"
        )


def _level(name: str, facts: ResourceManagerFacts) -> str:
    """How far an option has come; empty where the version does not know it."""
    alpha, beta, stable = {
        FULL_PCPUS_ONLY: (False, facts.cpu_policy_options, facts.full_pcpus_stable),
        DISTRIBUTE_NUMA: (facts.distribute_numa_option, facts.distribute_numa_beta, False),
        ALIGN_BY_SOCKET: (facts.align_by_socket_option, False, False),
        DISTRIBUTE_CORES: (facts.distribute_cores_option, False, False),
        STRICT_RESERVATION: (
            facts.strict_reservation_option,
            facts.strict_reservation_beta,
            facts.strict_reservation_stable,
        ),
        PREFER_UNCORE: (
            facts.prefer_uncore_option,
            facts.prefer_uncore_beta,
            facts.prefer_uncore_stable,
        ),
    }.get(name, (False, False, False))
    return "Stable" if stable else "Beta" if beta else "Alpha" if alpha else ""


# How many CPUs containers and pods get alone: what the static policy reads of a pod's spec.

CPU: Final = "cpu"


class GuaranteedCPUs(PodAmounts[int]):
    """How many CPUs containers and pods get alone, by the rules of one kubelet; 0: none.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/policy_static.go guaranteedCPUs, podGuaranteedCPUs
    """

    def empty_shared_pool(self, pod: Pod) -> str:
        """Why a pod as a whole leaves nothing for its containers that share; empty if it does.

        Source: v1.36.2 pkg/kubelet/cm/cpumanager/policy_static.go validatePodScopeResources
        """
        total = self.of_pod(pod)
        alone, shares = 0, False
        for container in pod.spec.init_containers or ():
            count = self.of_container(pod, container)
            if is_sidecar(container):
                shares = shares or not count
                alone += count
            elif not count and alone >= total:
                return "pod rejected, pod has shared init containers but no cpus available for them"
        for container in pod.spec.containers or ():
            count = self.of_container(pod, container)
            shares = shares or not count
            alone += count
        if shares and alone >= total:
            return (
                "pod rejected, sum of exclusive container cpu requests equals pod budget, leaving "
                "no cpus for shared containers"
            )
        return ""

    def count(self, pod: Pod, container: Container) -> int:
        """CPUs of a container; 0: it runs in the shared pool."""
        if not self.is_guaranteed(pod):
            return 0
        return _whole_cpus(self.amounts_of(pod, container).get(CPU))

    def count_pod(self, pod: Pod) -> int:
        """CPUs of a pod."""
        if not self.is_guaranteed(pod):
            return 0
        if self.is_managed_as_a_whole(pod):
            assert pod.spec.resources is not None
            return _whole_cpus((pod.spec.resources.requests or {}).get(CPU))
        at_start = beside = 0
        for container in pod.spec.init_containers or ():
            if CPU not in container.requests:
                continue
            count = self.of_container(pod, container)
            if runs_on(container, self.facts):
                beside += count
            else:
                at_start = max(at_start, beside + count)
        containers = [c for c in pod.spec.containers or () if CPU in c.requests]
        return max(at_start, beside + sum(self.of_container(pod, c) for c in containers))


def _whole_cpus(amount: Amount) -> int:
    """The amount if it is of whole CPUs, to a thousandth; else 0."""
    if amount is None:
        return 0
    nanos = NANOS[amount]
    cpus = units_of(nanos)
    return cpus if cpus * 1000 == milli_of(nanos) else 0
