"""Cases ``cgroup``: the values of one pod's cgroup and of its containers."""

from __future__ import annotations

from typing import Annotated

import msgspec

from kubeledger.kubelet.cases.fields import Strict
from kubeledger.kubelet.cgroups.decider import PodDecision, decide_pod
from kubeledger.kubelet.cgroups.paths import CgroupNameError
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.errors import BadInputError

_Period = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
"""Microseconds: the kubelet takes none beyond one second."""

_Memory = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class CgroupInput(Strict, frozen=True):
    """A pod, two settings and the node's memory in bytes."""

    pod: Pod
    cpu_cfs_quota: bool = msgspec.field(name="cpuCFSQuota")
    cpu_cfs_quota_period_us: _Period = msgspec.field(name="cpuCFSQuotaPeriodUs")
    memory_capacity: _Memory


class PodValues(Strict, frozen=True):
    """None: not written. Huge pages: page size in bytes -> bytes."""

    cpu_shares: int | None
    cpu_quota: int | None
    cpu_period: int | None
    memory_limit: int | None
    huge_page_limits: dict[int, int]


class ContainerValues(Strict, frozen=True):
    """A memory limit of 0 is not written."""

    cpu_shares: int
    cpu_quota: int
    cpu_period: int
    memory_limit: int
    oom_score_adj: int


class CgroupOutcome(Strict, frozen=True, kw_only=True):
    """What the kubelet asks for."""

    qos_class: str
    pod: PodValues
    containers: dict[str, ContainerValues]
    cgroupfs_path: str
    systemd_path: str


INPUT = CgroupInput
OUTCOME = object


def decide(case_input: CgroupInput, profile: KubeletProfile) -> CgroupOutcome:
    """The outcome that a kubelet of this version gives."""
    return _outcome(_decision(case_input, profile))


def _decision(case_input: CgroupInput, profile: KubeletProfile) -> PodDecision:
    try:
        return decide_pod(
            case_input.pod,
            profile.cgroups,
            enforce_cpu_limits=case_input.cpu_cfs_quota,
            cpu_period_us=case_input.cpu_cfs_quota_period_us,
            memory_capacity=case_input.memory_capacity,
        )
    except CgroupNameError as error:
        raise BadInputError(f"input.pod.metadata.uid: {error}") from None


def _outcome(decision: PodDecision) -> CgroupOutcome:
    pod = decision.pod
    return CgroupOutcome(
        qos_class=decision.qos_class,
        pod=PodValues(
            pod.cpu_shares,
            pod.cpu_quota_us,
            pod.cpu_period_us,
            pod.memory_limit_bytes,
            pod.huge_page_limits,
        ),
        containers={
            name: ContainerValues(
                c.cpu_shares, c.cpu_quota_us, c.cpu_period_us, c.memory_limit_bytes, c.oom_score_adj
            )
            for name, c in decision.containers.items()
        },
        cgroupfs_path=decision.cgroupfs_path,
        systemd_path=decision.systemd_path,
    )
