"""Why a cgroup holds what it does: from which requests and limits its values are reckoned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kubeledger.cgroups.container_config import ContainerConfig
from kubeledger.cgroups.conversions import MILLI_PER_CPU, SHARES_PER_CPU
from kubeledger.cgroups.explain_pod import PodExplainer
from kubeledger.cgroups.qos_config import QOSRequests
from kubeledger.kube.pod import Container
from kubeledger.kube.requests import ResourceList

__all__ = ["container_words", "pod_words", "qos_pods", "shares_sum"]

_NAMED_MAX: Final = 8


def pod_words(explainer: PodExplainer, pod: str) -> str:
    """The values of a pod's own cgroup, each with its sum."""
    decision = explainer.decision
    asked = decision.pod
    quota, memory = asked.cpu_quota_us, asked.memory_limit_bytes
    spec = explainer.pod.spec
    everybody = (*(spec.containers or ()), *(spec.init_containers or ()))
    requests = [(c.name or "", c.requests) for c in everybody]
    limits = [(c.name or "", c.limits) for c in everybody]
    cpu = f"a quota of {quota} us every {asked.cpu_period_us} us"
    cpu = cpu if quota and quota > 0 else "no quota"
    by_cpu = _parts(limits, "cpu") if quota and quota > 0 else ""
    limit = f"a memory limit of {memory} bytes" if memory else "no memory limit"
    by_memory = _parts(limits, "memory") if memory else ""
    return (
        f"pod {pod} is {decision.qos_class} and gets {asked.cpu_shares} shares "
        f"({explainer.explain(('pod', 'cpuShares'))}{_parts(requests, 'cpu')}), {cpu} "
        f"({explainer.explain(('pod', 'cpuQuota'))}{by_cpu}) and {limit} "
        f"({explainer.explain(('pod', 'memoryLimit'))}{by_memory})"
    )


def container_words(
    explainer: PodExplainer,
    pod: str,
    container: Container,
    config: ContainerConfig,
    *,
    exclusive: bool,
) -> str:
    """The values of a container's cgroup, each with its sum."""
    quota, memory = config.cpu_quota_us, config.memory_limit_bytes
    cpu = f"a quota of {quota} us every {config.cpu_period_us} us" if quota > 0 else "no quota"
    because = explainer.container_value(container, config, "cpuQuota")
    if exclusive and quota <= 0:
        because = "it has CPUs of its own"
    limit = f"a memory limit of {memory} bytes" if memory else "no memory limit"
    return (
        f"container {container.name} of pod {pod} gets {config.cpu_shares} shares "
        f"({explainer.container_value(container, config, 'cpuShares')}), {cpu} ({because}) and "
        f"{limit} ({explainer.container_value(container, config, 'memoryLimit')}"
        f"{_parts([('', container.limits)], 'memory')})"
    )


def _parts(amounts: Iterable[tuple[str, ResourceList]], resource: str) -> str:
    """``: app 150m, side 100m``; empty where nobody has an amount."""
    told = [(name, str(found[resource])) for name, found in amounts if resource in found]
    if not told:
        return ""
    parts = [f"{name} {amount}".strip() for name, amount in told[:_NAMED_MAX]]
    more = f" and {len(told) - _NAMED_MAX} more" if len(told) > _NAMED_MAX else ""
    return f": {', '.join(parts)}{more}"


def shares_sum(milli_cpu: int, shares: int) -> str:
    """``(300 * 1024 / 1000)``; empty where the least or the most stands in."""
    exact = milli_cpu * SHARES_PER_CPU // MILLI_PER_CPU
    return f" ({milli_cpu} * {SHARES_PER_CPU} / {MILLI_PER_CPU})" if shares == exact else ""


def qos_pods(parts: Sequence[tuple[str, QOSRequests]]) -> str:
    """``default/a 200m, default/b 100m``: the pods of a sum of CPU requests."""
    asking = [(name, r.burstable_milli_cpu) for name, r in parts if r.burstable_milli_cpu]
    told = [f"{name} {milli}m" for name, milli in asking[:_NAMED_MAX]]
    if len(asking) > _NAMED_MAX:
        rest = sum(milli for _, milli in asking[_NAMED_MAX:])
        told.append(f"{len(asking) - _NAMED_MAX} more {rest}m")
    return ", ".join(told)
