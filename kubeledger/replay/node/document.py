"""The state as a document for people and programs: parts by name, canonical JSON.

The same records give the same bytes in any process: keys are sorted, all numbers are
integers, all times nanoseconds since the epoch, UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from kubeledger.replay.node.state import NodeState


def _kubelet(state: NodeState) -> dict[str, Any]:
    counted = {"restarts": _count(state, state.kubelet.restarts)}
    return {**_plain(state.kubelet), **counted, "conflicts": list(state.conflicts)}


def _count(state: NodeState, count: int) -> int | None:
    """How often something happened; None where no kubelet was heard of that would have told."""
    return count if count or state.kubelet.started_ts_ns is not None else None


def _pods(state: NodeState) -> dict[str, Any]:
    pods: dict[str, Any] = _plain(state.lifecycle.pods)
    for pod in pods.values():
        del pod["kubelet_run"]  # bookkeeping
    return pods


def _devices(state: NodeState) -> dict[str, Any]:
    devices = _without(state.devicemanager, "allocations", "failures")
    return {"holders": devices.pop("pods"), **devices}


def _counts(state: NodeState) -> dict[str, int | None]:
    counts = {
        **state.lifecycle.counts,
        "device_allocations": state.devicemanager.allocations,
        "device_failures": state.devicemanager.failures,
        "image_bytes_freed": state.images.bytes_freed,
        "images_removed": state.images.images_removed,
        "kubelet_restarts": state.kubelet.restarts,
        "preempted": state.preemption.preempted,
        "preemptions_failed": state.preemption.failed,
        "probe_transitions": state.prober.transitions,
    }
    return {name: _count(state, count) for name, count in counts.items()}


PARTS: dict[str, Callable[[NodeState], Any]] = {
    "kubelet": _kubelet,
    "machine": lambda state: _plain(state.machine),
    "settings": lambda state: _plain(state.settings),
    "pods": _pods,
    "devices": _devices,
    "claims": lambda state: _plain(state.dra),
    "resources": lambda state: _plain(state.allocation),
    "cpus": lambda state: _plain(state.cpumanager),
    "memory": lambda state: _plain(state.memorymanager),
    "topology": lambda state: _plain(state.topologymanager.pods),
    "probes": lambda state: _plain(state.prober.pods),
    "images": lambda state: _without(state.images, "images_removed", "bytes_freed"),
    "pulls": lambda state: _plain(state.imagepull),
    "cgroups": lambda state: _plain(state.cgroups),
    "preemptions": lambda state: _without(state.preemption, "preempted", "failed"),
    "counts": _counts,
}
"""Name of a part -> how it is taken from the state, in the order people read them."""


def document(state: NodeState, parts: Iterable[str] | None = None) -> dict[str, Any]:
    """Node name, place in the history, and the parts asked for, as plain values.

    Args:
        state: is not changed and shares nothing mutable with the result.
        parts: names from ``PARTS``; None for all.
    """
    names = PARTS if parts is None else set(parts)
    head: dict[str, Any] = {"node": state.node, "seq": state.seq, "ts_ns": state.ts_ns}
    return head | {name: take(state) for name, take in PARTS.items() if name in names}


def canonical_json(state: NodeState, parts: Iterable[str] | None = None) -> bytes:
    """:func:`document` as one line of JSON with sorted keys, newline included."""
    return msgspec.json.encode(document(state, parts), order="sorted") + b"\n"


def _plain(value: Any) -> Any:  # noqa: ANN401 - any msgspec value
    return msgspec.to_builtins(value)


def _without(value: msgspec.Struct, *names: str) -> dict[str, Any]:
    plain: dict[str, Any] = _plain(value)
    for name in names:
        del plain[name]
    return plain
