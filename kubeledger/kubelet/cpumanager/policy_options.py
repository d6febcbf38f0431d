"""``cpuManagerPolicyOptions`` of the static policy, read as the kubelet reads them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from kubeledger.kubelet.cpumanager.topology import CPUTopology
from kubeledger.kubelet.kube.gotexts import parse_bool, quoted
from kubeledger.kubelet.kube.maporder import MapOrder
from kubeledger.kubelet.profile.resourcemanagers import ResourceManagerFacts

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
        FULL_PCPUS_ONLY: (
            False,
            facts.cpu_policy_options,
            facts.full_pcpus_stable,
        ),
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
