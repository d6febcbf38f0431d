"""The static policy's decisions, as far as they are no matter of CPU topology.

Which of the CPUs that may be given are taken follows from sockets, cores and caches; that is
not decided here, only which may be taken at all, and what becomes of the shared pool.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubeledger.kubelet.kube.amounts import NANOS
from kubeledger.kubelet.kube.cpuset import cpu_set_text
from kubeledger.kubelet.kube.pod import SIDECAR, Container, Pod
from kubeledger.kubelet.kube.podqos import pod_qos
from kubeledger.kubelet.profile.resourcemanagers import ResourceManagerFacts

Cpus = frozenset[int]
_CPU = 10**9
"""Nanos of one CPU."""


def exclusive_cpus(pod: Pod, container: Container, facts: ResourceManagerFacts) -> int:
    """How many CPUs a container gets alone; 0: it runs in the shared pool.

    Raises:
        BadInputError: an amount of the spec is not a quantity.

    Source: v1.30.1 pkg/kubelet/cm/cpumanager/policy_static.go guaranteedCPUs
    Differs: the amount allocated by a resize is not looked at.
    """
    pod_level = pod.spec.resources is not None
    if pod_level and facts.pod_level_pods_skipped:
        return 0
    if pod_qos(pod, status_wins=True, pod_level=pod_level) != "Guaranteed":
        return 0
    cpu = NANOS[container.requests["cpu"]] if "cpu" in container.requests else 0
    return cpu // _CPU if cpu % _CPU == 0 else 0


def reusable(
    pod: Pod, container: str, held: Mapping[str, Cpus], facts: ResourceManagerFacts
) -> Cpus:
    """CPUs of the pod's init containers that a later container of it may get as well.

    Args:
        pod: whose containers come in the order of its spec.
        container: the one that asks.
        held: container of the pod -> its CPUs.
        facts: of the kubelet's version.

    Source: v1.30.1 pkg/kubelet/cm/cpumanager/policy_static.go updateCPUsToReuse
    """
    free: Cpus = frozenset()
    init = {c.name or "": c for c in pod.spec.init_containers or ()}
    for name in (*init, *(c.name or "" for c in pod.spec.containers or ())):
        if name == container:
            break
        cpus = held.get(name, frozenset())
        sidecar = name in init and init[name].restart_policy == SIDECAR
        if name in init and not (sidecar and facts.sidecars_keep_resources):
            free |= cpus
        else:
            free -= cpus
    return free


def assignable(pool: Cpus, reserved: Cpus, reused: Cpus) -> Cpus:
    """CPUs that a container may get alone.

    Source: v1.30.1 pkg/kubelet/cm/cpumanager/policy_static.go allocateCPUs, GetAvailableCPUs
    """
    return (pool - reserved) | reused


def released_pool(pool: Cpus, cpus: Cpus, siblings: Cpus, facts: ResourceManagerFacts) -> Cpus:
    """The shared pool once a container has given back its CPUs.

    Args:
        pool: before it.
        cpus: what the container had.
        siblings: CPUs of the pod's other containers.
        facts: of the kubelet's version.

    Source: v1.30.1 pkg/kubelet/cm/cpumanager/policy_static.go RemoveContainer
    """
    return pool | (cpus - siblings if facts.release_spares_siblings else cpus)


def state_error(
    pool: Cpus, held: Mapping[tuple[str, str], Cpus], reserved: Cpus, machine: Cpus, *, strict: bool
) -> str | None:
    """What is wrong with a state file for this machine and these settings; None: it is accepted.

    Args:
        pool: the file's shared pool.
        held: (pod UID, container) -> CPUs.
        reserved: CPUs that no container gets.
        machine: all CPUs.
        strict: the policy option strict-cpu-reservation is on.

    Source: v1.33.1 pkg/kubelet/cm/cpumanager/policy_static.go validateState
    Differs: of several overlaps the first by pod and container is named, not one by map order.
    """
    if not pool:
        return "default cpuset cannot be empty" if held else None
    if strict and reserved & pool:
        return (
            f'some of strictly reserved cpus: "{cpu_set_text(reserved & pool)}" are present in '
            f'defaultCpuSet: "{cpu_set_text(pool)}"'
        )
    if not strict and not reserved <= pool:
        return (
            f'not all reserved cpus: "{cpu_set_text(reserved)}" are present in '
            f'defaultCpuSet: "{cpu_set_text(pool)}"'
        )
    for (uid, container), cpus in sorted(held.items()):
        if pool & cpus:
            return (
                f'pod: {uid}, container: {container} cpuset: "{cpu_set_text(cpus)}" overlaps with '
                f'default cpuset "{cpu_set_text(pool)}"'
            )
    known = pool.union(*held.values())
    wanted = machine - reserved if strict else machine
    if known != wanted:
        return (
            f'current set of available CPUs "{cpu_set_text(wanted)}" doesn\'t match with CPUs in '
            f'state "{cpu_set_text(known)}"'
        )
    return None
