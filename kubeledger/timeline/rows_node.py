"""The node itself: kubelet processes, pressure, disk and memory with their thresholds, GC runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from kubeledger.kube.quantity import value_of
from kubeledger.timeline.ask import NodeView
from kubeledger.timeline.drawing import Curve, Limit, Row, Section

__all__ = ["node_section"]

_POINTS_MAX = 4000
_GIB = 1024**3
_SIGNALS = {
    "memory.available": "memory available",
    "nodefs.available": "node disk available",
    "containerfs.available": "container disk available",
}
_SAME_DISK = "imagefs.available"


def node_section(view: NodeView) -> Section:
    """Rows of the node, in the order of the page; without those that nothing tells of."""
    rows = [
        _kubelets(view),
        _gaps(view),
        _pressure(view),
        _image_disk(view),
        *_signals(view),
        _gc_runs(view),
        _reclaims(view),
    ]
    return Section(id="node", title="Node", rows=[row for row in rows if row.items or row.curve])


def _kubelets(view: NodeView) -> Row:
    row = Row(label="kubelet")
    starts = view.rows(
        "kubelet_starts",
        "pid, kubelet_version, epoch_ns(exited_ts) AS exited_ns, exit_reason, exit_message",
    )
    for index, start in enumerate(starts):
        following = starts[index + 1]["ts_ns"] if index + 1 < len(starts) else None
        end_ns = start["exited_ns"] or following
        version = start["kubelet_version"] or "kubelet"
        pid = f" pid {start['pid']}" if start["pid"] else ""
        row.bar("kubelet", start["ts_ns"], end_ns, f"{version}{pid}", start["seq"])
        row.mark("kubelet_start", start["ts_ns"], "started", start["seq"])
        if start["exited_ns"] and start["exit_reason"] != "stopped":
            row.mark("kubelet_end", start["exited_ns"], start["exit_message"] or "", start["seq"])
    return row


def _gaps(view: NodeView) -> Row:
    row = Row(label="log")
    for finding in view.rows("findings", "finding, message"):
        if finding["finding"].startswith("clock_"):
            row.mark("clock_step", finding["ts_ns"], finding["message"], finding["seq"])
    return row


def _pressure(view: NodeView) -> Row:
    row = Row(label="pressure")
    changes = view.rows("pressure_conditions", "conditions")
    for index, change in enumerate(changes):
        end_ns = changes[index + 1]["ts_ns"] if index + 1 < len(changes) else None
        if change["conditions"]:
            row.bar(
                "pressure", change["ts_ns"], end_ns, ", ".join(change["conditions"]), change["seq"]
            )
    return row


def _image_disk(view: NodeView) -> Row:
    points = [
        (row["ts_ns"], round(100 * (1 - row["available"] / row["capacity"]), 2))
        for row in view.rows(
            "eviction_signals", "available, capacity", f"signal = '{_SAME_DISK}' AND capacity > 0"
        )
    ]
    limits = [
        Limit(label=f"{word} {value} %", value=float(value))
        for word, setting in (
            ("high", "imageGCHighThresholdPercent"),
            ("low", "imageGCLowThresholdPercent"),
        )
        for value in _setting(view, setting)
        if re.fullmatch(r"\d+", value)
    ]
    return Row(label="image disk used %", shape="curve", curve=_curve("%", points, limits))


def _signals(view: NodeView) -> Iterable[Row]:
    hard = [json.loads(value) for value in _setting(view, "evictionHard")]
    for signal, label in _SIGNALS.items():
        samples = view.rows(
            "eviction_signals", "available, capacity", f"signal = '{signal}' AND capacity > 0"
        )
        capacity = samples[-1]["capacity"] if samples else 0
        texts = list(dict.fromkeys(str(each[signal]) for each in hard if signal in each))
        limits = [
            Limit(label=f"evicts below {text}", value=_gib(text, capacity))
            for text in texts
            if samples
        ]
        points = [(row["ts_ns"], round(row["available"] / _GIB, 3)) for row in samples]
        yield Row(label=label, shape="curve", curve=_curve("GiB", points, limits))


def _gib(text: str, capacity: int) -> float:
    if text.endswith("%"):
        return round(capacity * float(text[:-1]) / 100 / _GIB, 3)
    return round(value_of(text) / _GIB, 3)


def _setting(view: NodeView, name: str) -> list[str]:
    """Values that the kubelet's processes had, each once."""
    rows = view.rows("settings", "value", f"setting = '{name}'")
    return list(dict.fromkeys(row["value"] for row in rows if row["value"] is not None))


def _curve(unit: str, points: list[tuple[int, float]], limits: list[Limit]) -> Curve | None:
    """Without the points between two of the same value, and thinned where there are too many."""
    if not points:
        return None
    kept = [
        point
        for index, point in enumerate(points)
        if index in (0, len(points) - 1) or point[1] != points[index - 1][1]
    ]
    step = -(-len(kept) // _POINTS_MAX)
    return Curve(unit=unit, points=kept[::step], limits=limits)


def _gc_runs(view: NodeView) -> Row:
    row = Row(label="image GC runs")
    for run in view.rows("image_gc_runs", "outcome, images_removed, error"):
        if run["outcome"] == "failed":
            row.mark("gc_failed", run["ts_ns"], run["error"] or "failed", run["seq"])
        elif run["images_removed"]:
            row.mark("gc_freed", run["ts_ns"], f"{run['images_removed']} removed", run["seq"])
    return row


def _reclaims(view: NodeView) -> Row:
    row = Row(label="eviction manager")
    for each in view.rows("reclaims", "resource, kind, outcome"):
        words = (each["resource"], each["kind"], each["outcome"])
        label = " ".join(word for word in words if word)
        row.mark("reclaim", each["ts_ns"], label.replace("_", " "), each["seq"])
    return row
