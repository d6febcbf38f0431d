"""What the kubelet asked of the kernel for a pod: memory limits, and ``oom_score_adj``."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kubeledger.kubelet.cgroups.container_config import container_config
from kubeledger.kubelet.cgroups.decider import PodDecision, decide_pod
from kubeledger.kubelet.cgroups.names import CgroupNameError
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.bodies.oom import ProcessKilled
from kubeledger.model.errors import BadInputError
from kubeledger.verify.bench import Bench
from kubeledger.verify.evidence.pods import ListedPod

__all__ = ["both_ways", "decisions", "memory_limit"]

_CPU_PERIOD_US = 100_000
"""In the place of settings that decide about CPU alone."""


def decisions(
    bench: Bench, ts_ns: int, body: ProcessKilled, capacity: int
) -> Iterator[tuple[ListedPod, PodDecision]]:
    """What is asked for by each version of the pod's spec, the last first."""
    listed = bench.pods.at(ts_ns, body.pod_uid, body.namespace, body.pod)
    for version in reversed(() if listed is None else bench.pods.versions(listed)):
        decision = _decide(version, bench.profile, capacity)
        if decision is not None:
            yield version, decision


def both_ways(
    bench: Bench, listed: ListedPod, ts_ns: int, capacity: int
) -> tuple[PodDecision, PodDecision] | None:
    """What was asked for as recorded, and what is under the variant; None if either is unknown."""
    recorded = bench.recorded_pods.at(ts_ns, listed.uid, listed.namespace, listed.name)
    before = _decide(recorded or listed, bench.recorded_profile, capacity)
    now = _decide(listed, bench.profile, capacity)
    return None if before is None or now is None else (before, now)


def _decide(listed: ListedPod, profile: KubeletProfile | None, capacity: int) -> PodDecision | None:
    """What is asked for; None where the version or the spec says nothing.

    Args:
        listed: the pod.
        profile: of the kubelet that asks.
        capacity: bytes of the node, which only the adjustment depends on.
    """
    if profile is None:
        return None
    try:
        pod = listed.as_(Pod)
        decision = decide_pod(
            pod,
            profile.cgroups,
            enforce_cpu_limits=True,
            cpu_period_us=_CPU_PERIOD_US,
            memory_capacity=capacity,
        )
        for init in pod.spec.init_containers or ():
            decision.containers[init.name or ""] = container_config(
                pod,
                init,
                decision.qos_class,
                profile.cgroups,
                enforce_cpu_limits=True,
                cpu_period_us=_CPU_PERIOD_US,
                memory_capacity=capacity,
            )
    except (msgspec.ValidationError, BadInputError, CgroupNameError):
        return None
    return decision


def memory_limit(decision: PodDecision, body: ProcessKilled) -> int | None:
    """Bytes that the pod or its container could use, by whose limit was reached; None: any."""
    limit = decision.pod.memory_limit_bytes
    if body.reason == "container_limit":
        own = decision.containers.get(body.container or "")
        limit = None if own is None else own.memory_limit_bytes
    return limit if limit is not None and limit > 0 else None
