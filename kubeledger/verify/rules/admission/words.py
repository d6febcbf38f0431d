"""Amounts and pods in sentences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubeledger.kube.pod import Pod
from kubeledger.lifecycle.resourcefit import pod_request
from kubeledger.preemption.requirements import Requirements
from kubeledger.units import sizes_text
from kubeledger.verify.rules.admission.case import UNCOUNTED, AdmissionCase, AdmissionOutcome

__all__ = [
    "amount",
    "amounts",
    "fits_because",
    "lacked_by",
    "listing",
    "plains",
    "priority_of",
    "short_of",
]

_FIRST: Final = ("cpu", "memory", "ephemeral-storage")


def plains(resource: str, *quantities: int) -> tuple[str, ...]:
    """``450m``, ``64Mi``, ``3``; several so that they can be compared."""
    if resource == "cpu":
        return tuple(f"{quantity}m" for quantity in quantities)
    if resource in _FIRST or resource.startswith("hugepages-"):
        return sizes_text(*quantities)
    return tuple(map(str, quantities))


def amount(resource: str, quantity: int) -> str:
    """``450m of cpu``, ``64Mi of memory``, ``3 pods``, ``2 of example.com/gpu``."""
    if resource == "pods":
        return f"{quantity} pod{'s' if quantity != 1 else ''}"
    return f"{plains(resource, quantity)[0]} of {resource}"


def amounts(requirements: Requirements) -> str:
    """What is missing, in words."""
    return listing(amount(r.resource, r.quantity) for r in requirements)


def listing(parts: Iterable[str]) -> str:
    """``a, b and c``."""
    *others, last = list(parts) or [""]
    return f"{', '.join(others)} and {last}" if others else last


def priority_of(pod: Pod) -> str:
    """The pod's priority, as it stands in its spec."""
    return "no priority" if pod.spec.priority is None else f"priority {pod.spec.priority}"


def short_of(outcome: AdmissionOutcome) -> str:
    """Why a pod does not fit: requested, used and allocatable of each resource it lacks."""
    return listing(
        f"{amount(i.resource_name, i.requested)} asked for, "
        f"{' of '.join(plains(i.resource_name, i.used, i.capacity))} in use"
        for i in outcome.insufficient
    )


def lacked_by(outcome: AdmissionOutcome, case: AdmissionCase | None = None) -> str:
    """What a pod lacks, and why; with the case, which pod lacks that."""
    lacks = f"{amounts(outcome.requirements)} ({short_of(outcome)})"
    if case is None:
        return lacks
    return f"{case.add.full_name} ({priority_of(case.pod)}) lacked {lacks}"


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
