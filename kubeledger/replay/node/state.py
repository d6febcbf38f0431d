"""The node's state: one plain structure a subsystem, and all of it as a document.

It is rebuilt by :func:`kubeledger.replay.node.reducer.evolve` and by nothing else. Whoever folds
records owns the state and lets it be changed in place. It is bounded by what is on the node:
of what went only counters stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from kubeledger.kubelet.allocation.reducer import AllocationState
from kubeledger.kubelet.cgroups.reducer import CgroupsState
from kubeledger.kubelet.cpumanager.reducer import CpuManagerState
from kubeledger.kubelet.devicemanager.reducer import DeviceManagerState
from kubeledger.kubelet.dra.reducer import DraManagerState
from kubeledger.kubelet.imagepull.reducer import ImagePullState
from kubeledger.kubelet.images.reducer import ImagesState
from kubeledger.kubelet.lifecycle.state import LifecycleState
from kubeledger.kubelet.memorymanager.reducer import MemoryManagerState
from kubeledger.kubelet.preemption.reducer import PreemptionState
from kubeledger.kubelet.prober.reducer import ProberState
from kubeledger.kubelet.topologymanager.reducer import TopologyManagerState
from kubeledger.model.bodies.node import Setting
from kubeledger.model.patterns import regex
from kubeledger.model.units import parse_ts

STATE_SCHEMA = 7
"""Version of these structures and of what the reducers do; a snapshot of another is void."""


class KubeletState(msgspec.Struct, kw_only=True):
    """The kubelet process.

    Attributes:
        pid: None when the log has none.
        version: None when unknown.
        version_source: as in ``KubeletStarted``.
        started_ts_ns: of the process that runs; None when no start was recorded.
        restarts: processes that followed on another in the records.
    """

    pid: int | None = None
    version: str | None = None
    version_source: str | None = None
    version_text: str | None = None
    started_ts_ns: int | None = None
    restarts: int = 0


class MachineState(msgspec.Struct, kw_only=True):
    """The node object and the machine, as last shown.

    Attributes:
        capacity, allocatable: resource -> quantity as written; None when not known.
        reasons: reason of an API event about the node -> how many.
        clock_steps: how often the clock went back in a log.
        pressure: pressure condition that the node reports -> since when; None as long as nothing
            tells. The eviction manager of a new kubelet process reports none until it finds a
            threshold met.
    """

    labels: dict[str, str] = {}
    taints: tuple[dict[str, str], ...] = ()
    capacity: dict[str, str] | None = None
    allocatable: dict[str, str] | None = None
    cpus: int | None = None
    memory_capacity_bytes: int | None = None
    numa_nodes: tuple[int, ...] | None = None
    reasons: dict[str, int] = {}
    clock_steps: int = 0
    pressure: dict[str, int] | None = None


class NodeState(msgspec.Struct, kw_only=True):
    """Everything about one node after one of its records.

    Attributes:
        node: its name; empty before the first record.
        seq: number of the last record that was applied; 0 before the first.
        ts_ns: time of that record; None before the first.
        latest_ts_ns: the greatest time of all records applied.
        settings: KubeletConfiguration field or ``--flag`` -> effective setting.
        conflicts: (n,) sentences about sources that disagree on settings.
    """

    node: str = ""
    seq: int = 0
    ts_ns: int | None = None
    latest_ts_ns: int | None = None
    kubelet: KubeletState = msgspec.field(default_factory=KubeletState)
    machine: MachineState = msgspec.field(default_factory=MachineState)
    settings: dict[str, Setting] = {}
    conflicts: tuple[str, ...] = ()
    lifecycle: LifecycleState = msgspec.field(default_factory=LifecycleState)
    devicemanager: DeviceManagerState = msgspec.field(default_factory=DeviceManagerState)
    allocation: AllocationState = msgspec.field(default_factory=AllocationState)
    dra: DraManagerState = msgspec.field(default_factory=DraManagerState)
    cpumanager: CpuManagerState = msgspec.field(default_factory=CpuManagerState)
    memorymanager: MemoryManagerState = msgspec.field(default_factory=MemoryManagerState)
    topologymanager: TopologyManagerState = msgspec.field(default_factory=TopologyManagerState)
    prober: ProberState = msgspec.field(default_factory=ProberState)
    imagepull: ImagePullState = msgspec.field(default_factory=ImagePullState)
    images: ImagesState = msgspec.field(default_factory=ImagesState)
    preemption: PreemptionState = msgspec.field(default_factory=PreemptionState)
    cgroups: CgroupsState = msgspec.field(default_factory=CgroupsState)


# The state as a document for people and programs: parts by name, canonical JSON.
#
# The same records give the same bytes in any process: keys are sorted, all numbers are
# integers, all times nanoseconds since the epoch, UTC.


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


# When a snapshot was taken, from the names of the directories and files that hold it.

SNAPSHOT_NAME = regex(
    r"(?P<year>20\d\d)-?(?P<month>\d\d)-?(?P<day>\d\d)[T_-]?"
    r"(?P<hour>\d\d)[:-]?(?P<minute>\d\d)[:-]?(?P<second>\d\d)(?P<fraction>[.,]\d+)?Z?"
)
"""``20261121T025401Z``, ``20261121T025401.296Z``, ``2026-11-21T02:54:01Z``,
``2026-11-21_02-54-01``; UTC."""

_INSIDE = regex(rf"(?<!\d)(?:{SNAPSHOT_NAME.pattern})(?!\d)")


def time_in_name(name: str) -> int | None:
    """Nanoseconds since the epoch of the innermost path element that holds a time."""
    for part in reversed(name.split("/")):
        for match in _INSIDE.finditer(part):
            parts = match.groupdict(default="")
            text = "{year}-{month}-{day}T{hour}:{minute}:{second}{fraction}Z".format(**parts)
            try:
                return parse_ts(text)
            except ValueError:
                continue
    return None
