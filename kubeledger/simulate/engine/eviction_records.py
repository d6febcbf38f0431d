"""What a simulated eviction manager decided, written down as an import would find it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from kubeledger.kubelet.eviction.decisions import Decision, Eviction, Round
from kubeledger.kubelet.eviction.signals import ALLOCATABLE_MEMORY, CONDITION_OF, RESOURCE_OF
from kubeledger.kubelet.eviction.summary import Summary
from kubeledger.kubelet.eviction.thresholds import Threshold, threshold_quantity
from kubeledger.kubelet.lifecycle.termination import overridden_grace_s
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.bodies.eviction import (
    ContainerUsage,
    NodeCondition,
    NodeConditionsChanged,
    PodSpared,
    PodUsage,
    PodUsageObserved,
    RankedPod,
    ReclaimAttempted,
)
from kubeledger.model.bodies.lifecycle import PodEvicted
from kubeledger.simulate.engine.journal import Journal
from kubeledger.simulate.engine.world import SimPod


def write_conditions(journal: Journal, found: Round, before: tuple[str, ...]) -> None:
    """The node conditions, where they are others than before."""
    if found.node_conditions == before:
        return
    met = {CONDITION_OF[threshold.signal] for threshold in found.met + found.unresolved}
    journal.write(
        NodeConditionsChanged(
            conditions=cast(tuple[NodeCondition, ...], found.node_conditions),
            observed=cast(tuple[NodeCondition, ...], tuple(sorted(met))),
        )
    )


def write_usage(journal: Journal, now_ns: int, summary: Summary) -> None:
    """What pods use, where they are ranked by it."""
    rows = tuple(
        PodUsage(
            namespace=each.pod_ref.namespace or "",
            pod=each.pod_ref.name or "",
            pod_uid=each.pod_ref.uid,
            memory_bytes=each.memory.working_set_bytes if each.memory is not None else None,
            memory_ts_ns=now_ns,
            storage_bytes=each.ephemeral_storage.used_bytes if each.ephemeral_storage else None,
            containers=tuple(
                ContainerUsage(
                    name=one.name or "",
                    rootfs_bytes=one.rootfs.used_bytes if one.rootfs is not None else None,
                    logs_bytes=one.logs.used_bytes if one.logs is not None else None,
                )
                for one in each.containers or ()
            ),
        )
        for each in summary.pods or ()
    )
    journal.write(PodUsageObserved(pods=rows))


def write_reclaim(
    journal: Journal,
    found: Round,
    decision: Decision,
    pods: Mapping[str, SimPod],
    cause: int | None,
) -> int:
    """The reclaim; returns its seq."""
    assert decision.threshold is not None
    outcome = "evicting" if decision.evicted else "nothing"
    if decision.reclaimed and not decision.still_met:
        outcome = "node_level"
    ranked = tuple(_ranked(pods[each.uid]) for group in decision.ranking for each in group)
    body = ReclaimAttempted(resource=RESOURCE_OF[decision.threshold.signal], ranked=ranked or None)
    fields = _fields(found, decision.threshold) | {"outcome": outcome}
    return journal.write(msgspec.structs.replace(body, **fields), cause=cause)


def write_spared(
    journal: Journal, decision: Decision, pods: Mapping[str, SimPod], cause: int | None
) -> None:
    """Critical pods whose turn it was."""
    for uid in decision.passed_over:
        pod = pods[uid]
        journal.write(PodSpared(**pod.identity), cause=cause)


def eviction_body(
    pod: SimPod, found: Round, decision: Decision, evicted: Eviction, profile: KubeletProfile
) -> PodEvicted:
    """One evicted pod."""
    own = evicted.pod.spec.termination_grace_period_seconds
    body = PodEvicted(
        **pod.identity,
        resource=None,
        signal=evicted.cause,
        threshold_kind="local_storage",
        grace_period_s=overridden_grace_s(profile.lifecycle, evicted.grace_period_s, own),
        message=evicted.message.text,
        evicted=True,
    )
    if decision.threshold is None:
        return body
    order = [each.uid for group in decision.ranking for each in group]
    return msgspec.structs.replace(
        body,
        resource=RESOURCE_OF[decision.threshold.signal],
        rank=order.index(pod.uid) + 1,
        **_fields(found, decision.threshold),
    )


def _fields(found: Round, threshold: Threshold) -> dict[str, object]:
    seen = found.observations[threshold.signal]
    kind = "hard" if threshold.is_hard else "soft"
    since = dict(zip(found.met + found.unresolved, found.since_ns, strict=True))
    return {
        "signal": threshold.signal,
        "threshold": threshold_quantity(threshold.value, seen.capacity).value(),
        "threshold_kind": "allocatable" if threshold.signal == ALLOCATABLE_MEMORY else kind,
        "since_ts_ns": since[threshold],
        "observed": seen.available,
    }


def _ranked(pod: SimPod) -> RankedPod:
    return RankedPod(**pod.identity)
