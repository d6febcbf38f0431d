"""From a decided config to the files of a cgroup, as the kubelet's libcontainer writes them.

These are the levels that the kubelet writes itself: pods, QoS classes, all pods. Files of
containers are the runtime's business. A file that is not named here is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kubeledger.kubelet.cgroups.container_config import huge_page_unit_size
from kubeledger.kubelet.cgroups.conversions import QUOTA_PERIOD_US, weight_of_shares
from kubeledger.kubelet.cgroups.pod_config import ResourceConfig
from kubeledger.kubelet.cgroups.qos_config import QOS_HUGE_PAGE_LIMIT, QOSConfig
from kubeledger.kubelet.profile.cgroups import CgroupFacts

_UINT64: Final = 2**64
_UNLIMITED: Final = "max"


def files_v1(
    config: ResourceConfig,
    facts: CgroupFacts,
    *,
    page_sizes: Sequence[str] | None = None,
    pids_limit: int | None = None,
) -> dict[str, str]:
    """Files of cgroup v1, over all controllers.

    Args:
        config: of the level.
        facts: of the kubelet's version.
        page_sizes: huge page sizes of the host as the kernel writes them (``2MB``); None
            where it has no hugetlb controller.
        pids_limit: process IDs, above 0; None leaves them alone.

    Returns:
        File -> text, in the order they are written.

    Source: v1.36.2 pkg/kubelet/cm/cgroup_manager_linux.go toResources; opencontainers/cgroups
        v0.0.6 fs/cpu.go, memory.go, pids.go, hugetlb.go; v1.21.0 with its runc
    Differs: no retry where the kernel refuses a period before its quota.
    """
    files: dict[str, str] = {}
    if config.memory_limit_bytes:
        files["memory.limit_in_bytes"] = str(config.memory_limit_bytes)
    if config.cpu_shares:
        files["cpu.shares"] = str(config.cpu_shares)
    if config.cpu_period_us:
        files["cpu.cfs_period_us"] = str(config.cpu_period_us)
    if config.cpu_quota_us:
        files["cpu.cfs_quota_us"] = str(config.cpu_quota_us)
    if pids_limit is not None:
        files["pids.max"] = str(pids_limit)
    files.update(_huge_pages(config, page_sizes, facts, "limit_in_bytes"))
    return files


def files_v2(
    config: ResourceConfig,
    facts: CgroupFacts,
    *,
    page_sizes: Sequence[str] | None = None,
    pids_limit: int | None = None,
    unified: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Files of cgroup v2.

    Shares become a weight and the kubelet's conversion is linear in all versions. Quota and
    period share a file, in which the period alone stands for no quota.

    Args:
        config: of the level.
        facts: of the kubelet's version.
        page_sizes: huge page sizes of the host as the kernel writes them (``2MB``); None
            where it has no hugetlb controller.
        pids_limit: process IDs, above 0; None leaves them alone.
        unified: files by name, see ``unified``; they are written last.

    Returns:
        File -> text.

    Source: v1.36.2 pkg/kubelet/cm/cgroup_manager_linux.go toResources, getCPUWeight;
        opencontainers/cgroups v0.0.6 fs2/cpu.go, memory.go, pids.go, hugetlb.go; v1.21.0 with
        its runc
    Differs: what is lower than the usage is not checked.
    """
    files: dict[str, str] = {}
    if pids_limit is not None:
        files["pids.max"] = str(pids_limit)
    if config.memory_limit_bytes:
        limit = config.memory_limit_bytes
        files["memory.max"] = _UNLIMITED if limit == -1 else str(limit)
    if config.cpu_shares:
        files["cpu.weight"] = str(weight_of_shares(config.cpu_shares))
    if config.cpu_quota_us or config.cpu_period_us:
        quota = config.cpu_quota_us or 0
        most = str(quota) if quota > 0 else _UNLIMITED
        files["cpu.max"] = f"{most} {config.cpu_period_us or QUOTA_PERIOD_US}"
    files.update(_huge_pages(config, page_sizes, facts, "max"))
    files.update(unified or {})
    return files


def qos_level_configs(
    config: QOSConfig, page_sizes_bytes: Sequence[int] = ()
) -> dict[str, ResourceConfig]:
    """The configs of the two QoS cgroups; their huge pages stay without limit in effect.

    Args:
        config: values of both.
        page_sizes_bytes: huge page sizes of the host.

    Source: v1.36.2 pkg/kubelet/cm/qos_container_manager_linux.go setHugePagesConfig
    """
    unbounded = dict.fromkeys(page_sizes_bytes, QOS_HUGE_PAGE_LIMIT)
    return {
        "burstable": ResourceConfig(
            cpu_shares=config.burstable_shares,
            memory_limit_bytes=config.burstable_memory_limit,
            huge_page_limits=unbounded,
        ),
        "besteffort": ResourceConfig(
            cpu_shares=config.best_effort_shares,
            memory_limit_bytes=config.best_effort_memory_limit,
            huge_page_limits=unbounded,
        ),
    }


def _huge_pages(
    config: ResourceConfig, page_sizes: Sequence[str] | None, facts: CgroupFacts, suffix: str
) -> dict[str, str]:
    """Every page size of the host is limited, to 0 where the config names it not.

    A size that cannot be written in a file's name is passed over. The ``rsvd`` files limit
    what is reserved, too; kernels before 5.7 have none.
    """
    if page_sizes is None:
        return {}
    limits: dict[str, int] = {}
    for size_bytes, limit in config.huge_page_limits.items():
        if size := huge_page_unit_size(size_bytes):
            limits[size] = limit
    files: dict[str, str] = {}
    for size, limit in {**limits, **{s: 0 for s in page_sizes if s not in limits}}.items():
        files[f"hugetlb.{size}.{suffix}"] = str(limit % _UINT64)
        if facts.huge_page_reservations_limited:
            files[f"hugetlb.{size}.rsvd.{suffix}"] = str(limit % _UINT64)
    return files
