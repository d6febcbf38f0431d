"""What the cgroup of all pods has to hold by the machine's capacity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubeledger.kubelet.cgroups.container_config import huge_page_unit_size
from kubeledger.kubelet.cgroups.node_config import resource_config_for_node
from kubeledger.kubelet.cgroups.pod_config import ResourceConfig
from kubeledger.kubelet.cgroups.qos_config import QOS_HUGE_PAGE_LIMIT
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.verify.evidence.machine import HUGE_PAGES, Capacity, Machine
from kubeledger.verify.rules.cgroups.files import Option
from kubeledger.verify.rules.cgroups.settings import Rules
from kubeledger.verify.rules.cgroups.values import Values, is_unified, kernel_values

__all__ = ["MISSING_PIDS", "node_option"]

MISSING_PIDS: Final = "the machine's limit of process IDs (signal pid.available)"
_QUOTA: Final = ("cpu_quota_us", "cpu_period_us")


def node_option(
    body: CgroupUpdated, machine: Machine, ts_ns: int, rules: Rules
) -> tuple[Option, list[str]]:
    """What is known of the cgroup of all pods, and the names of what is not."""
    unified, capacity, missing = is_unified(body), machine.at(ts_ns), rules.missing_for_node
    left = None if capacity is None else rules.kubepods(capacity.amounts)
    inputs = [rules.seq]
    if capacity is not None and left is not None and {"cpu", "memory"} <= left.keys():
        asked, amounts = resource_config_for_node(left), capacity.amounts
        memory = asked.memory_limit_bytes
        values = kernel_values(unified=unified, shares=[asked.cpu_shares or 0], memory=[memory])
        values |= _huge_pages(body, asked, capacity, rules, missing)
        less = "less systemReserved and kubeReserved" if rules.enforce_pods else "as a whole"
        text = (
            f"the machine's {amounts['cpu'].canonical()} CPUs and {amounts['memory'].value()} "
            f"bytes of memory, {less}, give {asked.cpu_shares} shares and a limit of {memory} "
            "bytes to all pods"
        )
    else:
        text, values = "no quota", kernel_values(unified=unified, shares=[0])
        values = {key: values[key] for key in _QUOTA}
        if capacity is None:
            missing.append("the machine's capacity")
        elif not missing:
            missing.append("the machine's CPUs and memory")
    inputs += [] if capacity is None else [capacity.seq]
    files = body.unified if unified else body.other
    if rules.profile.cgroups.process_ids_limited and "pids.max" in files:
        pids = machine.pids(ts_ns)
        if limits := _pids([limit for limit, _ in pids], rules):
            values["unified/pids.max" if unified else "other/pids.max"] = limits
            text += f", and pids.max of {limits[0]}"
            inputs += [seq for _, seq in pids[:1]]
        else:
            missing.append(MISSING_PIDS)
    fields = {"level": "node", "qos_class": None, "pod_uid": None}
    return Option(values, text, tuple(seq for seq in inputs if seq is not None), fields), missing


def _huge_pages(
    body: CgroupUpdated, asked: ResourceConfig, capacity: Capacity, rules: Rules, missing: list[str]
) -> Values:
    """The limits of huge pages; a size that the kubelet did not find is limited to 0."""
    known = any(name.startswith(HUGE_PAGES) for name in capacity.amounts)
    by_size = {huge_page_unit_size(size): n for size, n in asked.huge_page_limits.items()}
    values: Values = {}
    for size, found in body.hugetlb_limit_bytes.items():
        limits = [by_size.get(size, 0)] if known else []
        # The update of the QoS levels lifts it, where that names the root.
        if rules.profile.cgroups.qos_update_names_root:
            limits.append(QOS_HUGE_PAGE_LIMIT)
        if known or found in limits:
            values[f"hugetlb_limit_bytes/{size}"] = tuple(limits)
        else:
            missing.append("the machine's huge pages")
    return values


def _pids(limits: Sequence[int], rules: Rules) -> tuple[str, ...]:
    """What ``pids.max`` can hold by limits of the machine; empty where nothing says.

    The machine's limit less what is reserved of it. None is written for the QoS classes, which
    keep the kernel's ``max``; a container's is the runtime's own affair.

    Source: v1.36.2 pkg/kubelet/cm/node_container_manager_linux.go getCgroupConfigInternal
    """
    values: dict[str, None] = {}
    for limit in limits:
        left = rules.kubepods({"pid": Quantity.of(limit)}) or {}
        # A limit of 0 is not written, or written as 1, as the runtime's library has it.
        for most in (amount.value() for amount in left.values()):
            values |= dict.fromkeys([str(most)] if most > 0 else ["max", "0", "1"])
    return tuple(values)
