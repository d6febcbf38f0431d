"""Cases of the CPU manager with the static policy: a start, and what comes after it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

import msgspec

from kubeledger.kubelet.cases.cpu_run import Run
from kubeledger.kubelet.cases.cpu_steps import (
    AddContainer,
    Allocate,
    AllocatePod,
    CpuCase,
    Hints,
    Outcome,
    PodHints,
    Reconcile,
    RemoveContainer,
    Restart,
    Step,
)
from kubeledger.kubelet.cases.fields import ADMISSIBLE, Judgement, compared, impossible, shortened
from kubeledger.kubelet.cpumanager.cpu_manager import Manager
from kubeledger.kubelet.kube.containermanager import CPUSet, text_of
from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder, explore
from kubeledger.kubelet.kube.pod import Pod, containers_of
from kubeledger.kubelet.profile.resolve import KubeletProfile

INPUT = CpuCase
OUTCOME = Outcome


def decide(case_input: CpuCase, profile: KubeletProfile) -> Outcome:
    """Start, and go through the steps; where the kubelet has a choice, by the order of the case."""
    run = Run(case_input, profile, FIRST_ORDER)
    outcome = run.started
    outcome.steps.extend(run.steps())
    outcome.state_file = run.state_file
    return outcome


def judge(
    case_input: CpuCase, profile: KubeletProfile, decided: Outcome, claimed: Outcome
) -> Judgement:
    """Whether the claim can come out in some order of Go's maps."""
    begun = msgspec.structs.replace(claimed, steps=[], state_file=None)

    def comes_out(order: MapOrder) -> bool:
        run = Run(case_input, profile, order)
        return (
            run.started == begun
            and all(ours == theirs for ours, theirs in zip_longest(run.steps(), claimed.steps))
            and run.state_file == claimed.state_file
        )

    if any(explore(comes_out)):
        return ADMISSIBLE
    return _first_difference(Run(case_input, profile, FIRST_ORDER), begun, claimed)


def _first_difference(run: Run, begun: Outcome, claimed: Outcome) -> Judgement:
    """Where a claim first differs from what the kubelet does, and by which rule."""
    if run.started != begun:
        return _differs("at the start", run.started, begun, START_REASON)
    steps = run.case.steps
    for index, theirs in enumerate(claimed.steps):
        if run.manager is None or index >= len(steps):
            return impossible(f"there are no more steps after {index}, or the kubelet has stopped")
        why = reason_of(run.manager, steps[index], run.case.pods)
        ours = run.do(index, steps[index])
        if ours != theirs:
            what = type(steps[index]).__struct_config__.tag
            return _differs(f"step {index + 1} ({what}):", ours, theirs, why)
    if run.manager is not None and len(claimed.steps) < len(steps):
        return impossible(f"{len(claimed.steps)} steps came out, but there are {len(steps)}")
    return impossible(
        f"at the end cpu_manager_state is {shortened(run.state_file)}: what the last step left, "
        "and its checksum"
    )


def _differs(where: str, ours: object, theirs: object, why: str) -> Judgement:
    found = compared(msgspec.to_builtins(ours), msgspec.to_builtins(theirs), lambda _: why)
    return impossible(f"{where} {found.why}")


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
