"""What the kubelet asked of the kernel for a pod: memory limits, and ``oom_score_adj``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from kubeledger.kubelet.cgroups.decider import PodDecision, decide_pod
from kubeledger.kubelet.cgroups.names import CgroupNameError
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.bodies.oom import ProcessKilled
from kubeledger.model.errors import BadInputError
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.pods import ListedPod

__all__ = ["both_ways", "decisions", "memory_limit"]

_CPU_PERIOD_US = 100_000
"""In the place of settings that decide about CPU alone."""


def decisions(
    context: VerifyContext, ts_ns: int, body: ProcessKilled, capacity: int
) -> Iterator[tuple[ListedPod, PodDecision]]:
    """What is asked for by each version of the pod's spec, the last first."""
    listed = context.pods.at(ts_ns, body.pod_uid, body.namespace, body.pod)
    for version in reversed(() if listed is None else context.pods.versions(listed)):
        decision = _decide(version, context.profile, capacity)
        if decision is not None:
            yield version, decision


def both_ways(
    context: VerifyContext, listed: ListedPod, ts_ns: int, capacity: int
) -> tuple[PodDecision, PodDecision] | None:
    """What was asked for as recorded, and what is under the variant; None if either is unknown."""
    recorded = context.recorded_pods.at(ts_ns, listed.uid, listed.namespace, listed.name)
    before = _decide(recorded or listed, context.recorded_profile, capacity)
    now = _decide(listed, context.profile, capacity)
    return None if before is None or now is None else (before, now)


def _decide(listed: ListedPod, profile: KubeletProfile | None, capacity: int) -> PodDecision | None:
    """What is asked for, on a node of so many bytes; None where version or spec say nothing."""
    with suppress(msgspec.ValidationError, BadInputError, CgroupNameError):
        if profile is not None:
            return decide_pod(
                listed.as_(Pod),
                profile.cgroups,
                enforce_cpu_limits=True,
                cpu_period_us=_CPU_PERIOD_US,
                memory_capacity=capacity,
                with_init_containers=True,
            )
    return None


def memory_limit(decision: PodDecision, body: ProcessKilled) -> int | None:
    """Bytes that the pod or its container could use, by whose limit was reached; None: any."""
    limit = decision.pod.memory_limit_bytes
    if body.reason == "container_limit":
        own = decision.containers.get(body.container or "")
        limit = None if own is None else own.memory_limit_bytes
    return limit if limit is not None and limit > 0 else None
