"""Lines of severity W, E and F that no other record tells, by shape; which of them are harmless."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec


class Harmless(msgspec.Struct, frozen=True):
    """Lines after which the kubelet goes on as it was told to.

    Attributes:
        source: the caller's file.
        shape: regular expression of what their shape begins with.
        reason: the kubelet's own account of why.
    """

    source: str
    shape: str
    reason: str


HARMLESS = (
    Harmless(
        "dns.go",
        r"Nameserver limits (?:were )?exceeded",
        "a resolver takes three nameservers: those after the first three are left out",
    ),
    Harmless(
        "file(?:_linux)?.go",
        r"Unable to read config path(?: \*)?: path does not exist, ignoring",
        "there is no directory of static pods: it is looked for again",
    ),
    Harmless(
        "feature_gate.go",
        r"Setting (?:GA|deprecated) feature gate",
        "the gate is set; a future release will not know it",
    ),
    Harmless(
        "server.go",
        r"Warning: For remote container runtime, --pod-infra-container-image is ignored",
        "the runtime has its own setting",
    ),
    Harmless(
        "(?:server|kubelet).go",
        r"No (?:api|API) server defined",
        "a kubelet without API server reports to none",
    ),
    Harmless(
        "csi_plugin.go",
        r"(?:\*: )?(?:kubeclient not set, assuming standalone kubelet"
        r"|Skipping CSINode initialization, kubelet running in standalone mode)",
        "a kubelet without API server has no CSINode to fill",
    ),
    Harmless(
        "probe.go",
        r"Flexvolume plugin directory at \* does not exist\. Recreating",
        "the directory is made",
    ),
    Harmless(
        "eviction_manager.go",
        r"eviction manager: failed to check if we have separate container filesystem\. Ignoring",
        "images and containers are taken to share one filesystem",
    ),
    Harmless(
        "kubelet.go",
        r"[Ss]kipping pod synchronization(?::| -) \[?container runtime status check may not have "
        r"completed yet(?:, PLEG is not healthy: pleg has yet to be successful)?\]?\Z",
        "the kubelet has just started, and has not asked the runtime yet",
    ),
    Harmless(
        "kubelet.go",
        r"Image garbage collection failed once\. Stats initialization may not have completed yet: "
        r"(?:failed to get(?: imageFs info| image stats|\Z)|invalid capacity)",
        "the kubelet has just started, and has no statistics of the disk yet",
    ),
    Harmless(
        "sysinfo.go",
        r"Nodes topology is not available, providing CPU topology",
        "the topology is read of the CPUs instead",
    ),
    Harmless(
        "machine.go",
        r"Cannot read vendor id correctly, set empty",
        "the vendor's name is only shown",
    ),
    Harmless(
        "cpu_manager.go",
        r"RemoveStaleState: removing container",
        "its pod is gone: its CPUs are free again; later kubelets log it as information",
    ),
    Harmless(
        "empty_dir.go",
        r"Warning: Failed to clear quota on \*: clearQuota called, but quotas disabled",
        "there was no quota to clear",
    ),
)


@cache
def harmless(source: str, shape: str) -> str | None:
    """Why such a line is harmless by the kubelet's own account; None: it does not say so."""
    for each in HARMLESS:
        if re.fullmatch(each.source, source) and re.match(each.shape, shape):
            return each.reason
    return None


class ErrorShape(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of one shape.

    Attributes:
        recorded: other records tell it.
        count: how many; ``pods`` that they name.
        ts_ns: of the first; ``seq`` of a record that shows one.
    """

    severity: str
    source: str
    shape: str
    recorded: bool
    count: int
    pods: Sequence[str]
    ts_ns: int
    seq: int


LOGGED = """SELECT severity, source, shape, recorded, sum(count)::BIGINT AS count,
    list_sort(list_distinct(list(concat_ws('/', namespace, pod)) FILTER (pod IS NOT NULL))) AS pods,
    min(epoch_ns(ts)) AS ts_ns, arg_min(example_seq, ts) AS seq
FROM logged_errors WHERE node = $node GROUP BY severity, source, shape, recorded"""
"""All shapes of a node, the harmless ones and those that other records tell too."""


def untold(rows: Iterable[Mapping[str, Any]], *, nothing_else: bool) -> list[ErrorShape]:
    """What is not harmless of what ``LOGGED`` gives, worst first: errors, and those about pods.

    Args:
        nothing_else: no record tells of anything that went wrong: then those are among them that
            records do tell.
    """
    return [
        each
        for each in _shapes(rows)
        if (nothing_else or not each.recorded) and harmless(each.source, each.shape) is None
    ]


def excused(rows: Iterable[Mapping[str, Any]]) -> list[tuple[ErrorShape, str]]:
    """What is harmless of what ``LOGGED`` gives, in the same order, each with the reason."""
    found = ((each, harmless(each.source, each.shape)) for each in _shapes(rows))
    return [(each, reason) for each, reason in found if reason is not None]


def _shapes(rows: Iterable[Mapping[str, Any]]) -> list[ErrorShape]:
    shapes = (ErrorShape(**{**row, "pods": row["pods"] or ()}) for row in rows)
    return sorted(
        shapes, key=lambda each: ("FEW".index(each.severity), not each.pods, -each.count, each.seq)
    )
