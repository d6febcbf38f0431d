"""Quantities over time that the page shows otherwise: free devices, and cgroup values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from kubeledger.timeline.ask import NodeView
from kubeledger.timeline.drawing import Drawing

__all__ = ["Counter", "counters"]

_CGROUP_VALUES = {
    "memory_limit_bytes": "bytes",
    "cpu_shares": "shares",
    "cpu_quota_us": "µs",
}


class Counter(msgspec.Struct, frozen=True):
    """A quantity that keeps each value until the next.

    Attributes:
        name: of the quantity.
        unit: of its values.
        points: (n,) time in nanoseconds and value, in the order of time.
        group: what it is one of.
    """

    name: str
    unit: str
    points: Sequence[tuple[int, float]]
    group: str = ""


def counters(view: NodeView, drawing: Drawing) -> Iterator[Counter]:
    """Free devices of each resource, and what changed of the cgroups that the drawing shows."""
    yield from _free_devices(view)
    columns = {
        row.label for section in drawing.sections if section.id == "cgroups" for row in section.rows
    }
    yield from _cgroup_values(view, columns)


def _free_devices(view: NodeView) -> Iterator[Counter]:
    """Healthy devices that no container holds, from the first list that shows how many there are.

    A device goes with its plugin's next list; what a pod that ended still holds is not free.
    """
    changes: dict[str, list[tuple[int, int, str, frozenset[str]]]] = defaultdict(list)
    for row in view(
        "SELECT resource, epoch_ns(ts) AS ts_ns, seq, device_ids, healthy FROM device_reports"
        " WHERE node = $node AND device_ids IS NOT NULL AND healthy = len(device_ids)"
    ):
        devices = frozenset(row["device_ids"])
        changes[row["resource"]].append((row["ts_ns"], row["seq"], "there", devices))
    for row in view(
        "SELECT resource, epoch_ns(ts) AS ts_ns, seq, device_ids, epoch_ns(released_ts) AS end_ns"
        " FROM device_allocations WHERE node = $node"
    ):
        devices = frozenset(row["device_ids"])
        changes[row["resource"]].append((row["ts_ns"], row["seq"], "held", devices))
        if row["end_ns"] is not None:
            changes[row["resource"]].append((row["end_ns"], row["seq"], "given back", devices))
    for resource in sorted(changes):
        if points := _free(sorted(changes[resource], key=lambda change: change[:2])):
            yield Counter(f"{resource} free", "devices", points, "Free devices")


def _free(changes: Sequence[tuple[int, int, str, frozenset[str]]]) -> list[tuple[int, float]]:
    there: frozenset[str] | None = None
    holders: dict[str, int] = defaultdict(int)
    points: list[tuple[int, float]] = []
    for ts_ns, _, what, devices in changes:
        if what == "there":
            there = devices
        else:
            # An init container's device goes on to the next container before it is given back.
            for device in devices:
                holders[device] += 1 if what == "held" else -1
        if there is not None:
            free = float(sum(holders[device] <= 0 for device in there))
            if not points or points[-1][1] != free:
                points.append((ts_ns, free))
    return points


def _cgroup_values(view: NodeView, columns: set[str]) -> Iterator[Counter]:
    points: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for row in view.rows("cgroup_updates", ", ".join(["cgroup", *_CGROUP_VALUES])):
        for name in _CGROUP_VALUES:
            if row["cgroup"] in columns and row[name] is not None:
                points[row["cgroup"], name].append((row["ts_ns"], float(row[name])))
    for (cgroup, name), values in sorted(points.items()):
        if len({value for _, value in values}) > 1:
            yield Counter(f"{cgroup} {name}", _CGROUP_VALUES[name], values, "Cgroup values")
