"""Decisions of the critical pod admission failure handler (pkg/kubelet/preemption)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kubeledger.model.record import Decision

__all__ = ["InsufficientResource", "PodPreempted", "PreemptionFailed"]


class InsufficientResource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An amount that was missing when the preemptor was to be admitted.

    Attributes:
        resource: resource name, e.g. ``cpu``.
        quantity: amount missing: millicores for cpu, bytes for memory, else units.
    """

    resource: str
    quantity: int


class PodPreempted(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One victim of one preemption, in the order they are killed.

    Attributes:
        insufficient: (n,) what was missing; empty when no source says.
        evicted: the kill succeeded; False when it failed, None when not known.
        cut: the line that names the victims is cut short, so there may have been more.
        preemptor_*: None when no source names it.
        preemptor_inferred: the preemptor is not named by the line; it follows from order.
    """

    kind: ClassVar[str] = "preemption.PodPreempted"
    victim_namespace: str
    victim_pod: str
    victim_uid: str | None
    preemptor_namespace: str | None
    preemptor_pod: str | None
    preemptor_uid: str | None
    preemptor_inferred: bool = False
    insufficient: tuple[InsufficientResource, ...]
    evicted: bool | None
    cut: bool = False


class PreemptionFailed(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A critical pod did not fit and no set of victims would have helped.

    Attributes:
        error: the kubelet's error text.
    """

    kind: ClassVar[str] = "preemption.PreemptionFailed"
    preemptor_namespace: str
    preemptor_pod: str
    preemptor_uid: str | None
    insufficient: tuple[InsufficientResource, ...]
    error: str
