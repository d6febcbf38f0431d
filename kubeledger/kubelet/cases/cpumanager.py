"""Cases of the CPU manager with the static policy: a start, and what comes after it."""

from __future__ import annotations

from itertools import zip_longest

import msgspec

from kubeledger.kubelet.cases.cpu_reasons import START_REASON, reason_of
from kubeledger.kubelet.cases.cpu_run import Run
from kubeledger.kubelet.cases.cpu_steps import CpuCase, Outcome
from kubeledger.kubelet.cases.fields import shortened
from kubeledger.kubelet.cases.judgement import ADMISSIBLE, Judgement, compared, impossible
from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder, explore
from kubeledger.kubelet.profile.resolve import KubeletProfile

INPUT = CpuCase
OUTCOME = Outcome


def decide(case_input: CpuCase, profile: KubeletProfile) -> Outcome:
    """Start, and go through the steps; where the kubelet has a choice, by the order of the case.

    Raises:
        BadInputError: a pod or container that is not there, a bad quantity, set or NUMA node.
    """
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
