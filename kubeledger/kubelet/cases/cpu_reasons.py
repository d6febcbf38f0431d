"""Why a step of the CPU manager comes out as it does: what the manager knows before it."""

from __future__ import annotations

from collections.abc import Mapping

from kubeledger.kubelet.cases.cpu_steps import (
    AddContainer,
    Allocate,
    AllocatePod,
    Hints,
    PodHints,
    Reconcile,
    RemoveContainer,
    Restart,
    Step,
)
from kubeledger.kubelet.cpumanager.cpu_manager import Manager
from kubeledger.kubelet.kube.cpuset import CPUSet, text_of
from kubeledger.kubelet.kube.pod import Pod, containers_of

START_REASON = (
    "a kubelet starts with what its file holds, or with all CPUs shared, if machine, reserved "
    "CPUs, options and file fit together"
)

_PREFERRED = (
    "sets of NUMA nodes that have so many are hints, and preferred are the smallest that would "
    "have them on an empty machine"
)


def reason_of(manager: Manager, step: Step, pods: Mapping[str, Pod]) -> str:
    """The rule for a step, with the figures that it goes by.

    Args:
        manager: before the step.
        step: that follows.
        pods: of the case, by UID.
    """
    match step:
        case Allocate() | Hints():
            return _container(manager, pods.get(step.pod), step.container)
        case AllocatePod() | PodHints():
            return _pod(manager, pods.get(step.pod))
        case Reconcile():
            return (
                "each running container whose CPUs are not those that the runtime was last told of "
                "is told, in the order of the active pods"
            )
        case RemoveContainer():
            return "a container's CPUs go back when its ID is removed, of an ID that is known"
        case Restart():
            return "a process starts with what its file holds, if that fits the machine"
        case AddContainer():
            return "a container that starts changes nobody's CPUs"
    return f"what no active pod has goes back to the shared pool, {_pool(manager)}"


def _container(manager: Manager, pod: Pod | None, name: str) -> str:
    if pod is None:
        return "there is no such pod"
    found = [container for container in containers_of(pod) if container.name == name]
    count = manager.policy.guaranteed.of_container(pod, found[0]) if found else 0
    uid = pod.metadata.uid or ""
    if not count:
        return "only a container of a Guaranteed pod that requests whole CPUs gets any alone"
    if manager.policy.guaranteed.is_skipped(pod):
        return "a pod with resources of its own gets no CPUs alone"
    held = manager.state.get(uid, name)
    if held is not None:
        return f"it requests {count} and has {_shown(held)} already"
    reusable = manager.policy.cpus_to_reuse.get(uid, 0)
    again = f", and {_shown(reusable)} of its pod's init containers" if reusable else ""
    return f"it requests {count} of the free CPUs, {_free(manager)}{again}; {_PREFERRED}"


def _pod(manager: Manager, pod: Pod | None) -> str:
    if pod is None:
        return "there is no such pod"
    count = manager.policy.guaranteed.of_pod(pod)
    if not count:
        return "its containers request no whole CPUs in a Guaranteed pod"
    return f"it requests {count} of the free CPUs, {_free(manager)}; {_PREFERRED}"


def _free(manager: Manager) -> str:
    free = manager.policy.available(manager.state)
    return f"{_shown(free)} ({free.bit_count()}, without what is stale)"


def _pool(manager: Manager) -> str:
    return f"which is {_shown(manager.state.default)} before"


def _shown(cpus: CPUSet) -> str:
    return text_of(cpus) or "none"
