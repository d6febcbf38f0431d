"""What the cgroups ``burstable`` and ``besteffort`` have to hold after a write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kubeledger.cgroups.paths import parse_cgroup_path
from kubeledger.cgroups.qos_config import (
    QOS_HUGE_PAGE_LIMIT,
    QOSRequests,
    qos_config,
    qos_unified,
)
from kubeledger.cgroups.records import CgroupUpdated
from kubeledger.verify.cgroups.judging import Option
from kubeledger.verify.cgroups.pods import Rules
from kubeledger.verify.cgroups.settings import NO_RESERVE
from kubeledger.verify.cgroups.sums import Sums
from kubeledger.verify.cgroups.values import Values, is_unified, kernel_values
from kubeledger.verify.cgroups.words import qos_pods, shares_sum

__all__ = ["UNWRITTEN", "Kept", "qos_options"]

Kept = dict[str, tuple[Any, ...]]
"""Field -> (1 or more,) values that stood in a file which this kubelet does not write."""

UNWRITTEN: Final = ("memory_limit_bytes", "unified/memory.max")
"""Files of a QoS level that are written only with a memory reserve."""


def qos_options(
    body: CgroupUpdated,
    sums: Sums,
    rules: Rules,
    *,
    allocatable_memory: int | None,
    kept: Kept | None,
    inputs: tuple[int, ...],
) -> Iterator[Option]:
    """Every way in which a write can have left the level, the usual one first.

    Args:
        body: the record of the level.
        sums: with which the write can have reckoned.
        rules: under which it was made.
        allocatable_memory: bytes for the QoS memory reserve, where there is one.
        kept: what stood before in files that are not written; None when nothing is known.
        inputs: records that every option rests on.
    """
    inputs = (*sums.inputs, *inputs)
    others = sorted(sums.possible - {sums.usual}, key=_order)
    by_sum = sums.by_sum()
    for requests in (sums.usual, *others):
        pods = qos_pods(by_sum.get(requests, ()))
        yield _option(body, requests, sums, pods, rules, allocatable_memory, kept, inputs)


def _order(requests: QOSRequests) -> tuple[int, int, int]:
    return (requests.burstable_milli_cpu, requests.guaranteed_memory, requests.burstable_memory)


def _option(
    body: CgroupUpdated,
    requests: QOSRequests,
    sums: Sums,
    pods: str,
    rules: Rules,
    allocatable_memory: int | None,
    kept: Kept | None,
    inputs: tuple[int, ...],
) -> Option:
    percent = rules.settings.reserve_percent
    reserved = percent is not None and percent != NO_RESERVE
    config = qos_config(
        requests,
        allocatable_memory=allocatable_memory,
        memory_reserve_percent=percent if reserved else None,
    )
    where = parse_cgroup_path(body.cgroup)
    qos_class = body.qos_class if where is None else where.qos_class
    burstable = qos_class == "Burstable"
    shares = config.burstable_shares if burstable else config.best_effort_shares
    memory = config.burstable_memory_limit if burstable else config.best_effort_memory_limit
    unified = is_unified(body)
    values: Values = kernel_values(
        unified=unified, shares=[shares], quota_us=[None], period_us=None, memory=memory
    )
    if memory is None:
        for key in UNWRITTEN:
            if kept is not None and key in kept:
                values[key] = kept[key]
            else:
                values.pop(key, None)
    values["unified/pids.max" if unified else "other/pids.max"] = ("max",)
    if unified and burstable and rules.settings.memory_qos:
        files = qos_unified(
            requests, rules.profile.cgroups, tiered_reservation=rules.settings.tiered
        )
        values |= {f"unified/{name}": (text,) for name, text in files["burstable"].items()}
    for size in body.hugetlb_limit_bytes:
        values[f"hugetlb_limit_bytes/{size}"] = (QOS_HUGE_PAGE_LIMIT,)
    fields = {"level": "qos", "qos_class": qos_class, "pod_uid": None}
    of = f" (of {sums.pods} active pods)" if requests == sums.usual else ""
    why = _shares_why(requests, shares, of, pods, burstable=burstable)
    left = _memory_why(requests, memory, of, allocatable_memory, percent if reserved else None,
                       burstable=burstable)  # fmt: skip
    return Option(values, f"{why}, and {left}", inputs, fields)


def _shares_why(requests: QOSRequests, shares: int, of: str, pods: str, *, burstable: bool) -> str:
    if not burstable:
        return f"BestEffort pods share {shares} shares"
    milli = requests.burstable_milli_cpu
    named = f": {pods}" if pods else ""
    return (
        f"Burstable pods{of} request {milli}m CPU together, which are {shares} shares"
        f"{shares_sum(milli, shares)}{named}"
    )


def _memory_why(
    requests: QOSRequests,
    limit: int | None,
    of: str,
    allocatable: int | None,
    percent: int | None,
    *,
    burstable: bool,
) -> str:
    if percent is None:
        return "no memory limit is written"
    asked = [f"{requests.guaranteed_memory} bytes of the Guaranteed pods"]
    if not burstable:
        asked.append(f"{requests.burstable_memory} bytes of the Burstable pods{of}")
    return (
        f"{percent} % of the requested {' and '.join(asked)} is kept from them, "
        f"which leaves {limit} of {allocatable} allocatable bytes"
    )
