"""Why a pod fits, or does not."""

from __future__ import annotations

from typing import Final

from kubeledger.kubelet.lifecycle.resourcefit import pod_request
from kubeledger.kubelet.preemption.explain import amount, amounts, listing, plains, priority_of
from kubeledger.verify.rules.admission.case import UNCOUNTED, AdmissionCase, AdmissionOutcome

__all__ = [
    "fits_because",
    "lacked_by",
    "short_of",
]

_FIRST: Final = ("cpu", "memory", "ephemeral-storage")


def short_of(outcome: AdmissionOutcome) -> str:
    """Why a pod does not fit: requested, used and allocatable of each resource it lacks."""
    return listing(
        f"{amount(i.resource_name, i.requested)} requested, "
        f"{' of '.join(plains(i.resource_name, i.used, i.capacity))} in use"
        for i in outcome.insufficient
    )


def lacked_by(outcome: AdmissionOutcome, case: AdmissionCase | None = None) -> str:
    """What a pod lacks, and why; with the case, which pod lacks that."""
    lacks = f"{amounts(outcome.requirements)} ({short_of(outcome)})"
    if case is None:
        return lacks
    return f"{case.interval.full_name} ({priority_of(case.pod)}) lacked {lacks}"


def fits_because(case: AdmissionCase, outcome: AdmissionOutcome) -> str:
    """Why a pod fits: what it asks for, and what is in use."""
    info = outcome.info
    asked = {r: n for r, n in pod_request(case.pod.spec, case.facts).items() if n > 0}
    parts = [
        f"{amount(resource, n)} ("
        f"{' of '.join(plains(resource, info.requested(resource), info.allocatable(resource)))} "
        "in use)"
        for resource, n in asked.items()
        if resource in _FIRST
        or (info.lists_scalar(resource) and info.allocatable(resource) < UNCOUNTED)
    ]
    room = f"{len(outcome.pods)} of {info.allocatable('pods')} pods were active"
    if not parts:
        return f"the pod asks for no cpu and memory, and {room}"
    return f"the pod asks for {listing(parts)}; {room}"
