"""Cases of the CPU manager with the static policy: a start, and what comes after it."""

from __future__ import annotations

from itertools import zip_longest

import msgspec

from kubeledger.kubelet.cases.cpu_run import Run
from kubeledger.kubelet.cases.cpu_steps import (
    CpuCase,
    Outcome,
)
from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder, explore
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


def nearest(
    case_input: CpuCase, profile: KubeletProfile, decided: Outcome, claimed: Outcome
) -> Outcome:
    """The claim, if it comes out in some order of Go's maps."""
    begun = msgspec.structs.replace(claimed, steps=[], state_file=None)

    def comes_out(order: MapOrder) -> bool:
        run = Run(case_input, profile, order)
        return (
            run.started == begun
            and all(ours == theirs for ours, theirs in zip_longest(run.steps(), claimed.steps))
            and run.state_file == claimed.state_file
        )

    return claimed if any(explore(comes_out)) else decided
