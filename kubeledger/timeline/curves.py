"""Disks and memory over time, with the thresholds that were in force."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from kubeledger.kubelet.kube.quantity import value_of
from kubeledger.timeline.ask import NodeView, ViewRow
from kubeledger.timeline.drawing import Curve, Limit, Row

__all__ = ["curve_rows"]

_POINTS_MAX = 4000
_IMAGE_DISK = "imagefs.available"
_SIGNALS = {
    "memory.available": "memory available",
    "nodefs.available": "node disk available",
    _IMAGE_DISK: "image disk available",
    "containerfs.available": "container disk available",
    "nodefs.inodesFree": "node disk inodes free",
    "imagefs.inodesFree": "image disk inodes free",
    "containerfs.inodesFree": "container disk inodes free",
    "pid.available": "process IDs available",
}
_ALWAYS = ("memory.available", "nodefs.available", "containerfs.available")
"""Other signals have a curve only where something was reclaimed for them."""
_UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"))


def curve_rows(view: NodeView) -> Iterator[Row]:
    """How full the image disk is, and what is left of the other resources.

    The containers' disk is mostly one of the other two, with the same numbers, and not drawn again.
    """
    samples: dict[str, list[ViewRow]] = {}
    for row in view.rows("eviction_signals", "signal, available, capacity", "capacity > 0"):
        samples.setdefault(row["signal"], []).append(row)
    settings = view.rows("settings", "setting, value")
    yield _image_disk(view, samples.get(_IMAGE_DISK, []), settings)
    short = {row["signal"] for row in view.rows("reclaims", "signal")}
    values = {signal: [row["available"] for row in rows] for signal, rows in samples.items()}
    same = [values.get(signal) for signal in (_IMAGE_DISK, "nodefs.available")]
    for signal, label in _SIGNALS.items():
        if signal not in samples or (signal not in _ALWAYS and signal not in short):
            continue
        if signal != "containerfs.available" or values[signal] not in same:
            yield _signal(signal, label, samples[signal], settings)


def _image_disk(view: NodeView, rows: list[ViewRow], settings: list[ViewRow]) -> Row:
    if rows:
        points = [
            (row["ts_ns"], round(100 * (1 - row["available"] / row["capacity"]), 2)) for row in rows
        ]
    else:
        points = [
            (row["ts_ns"], round(100 * (1 - row["available_bytes"] / row["capacity_bytes"]), 2))
            for row in view.rows(
                "image_fs",
                "available_bytes, capacity_bytes",
                "capacity_bytes > 0 AND available_bytes IS NOT NULL",
            )
        ]
    limits = [
        limit
        for word, setting in (
            ("high", "imageGCHighThresholdPercent"),
            ("low", "imageGCLowThresholdPercent"),
        )
        for limit in _limits(
            (row["ts_ns"], float(row["value"]), f"{word} {row['value']} %")
            if row["value"] and row["value"].isdecimal()
            else (row["ts_ns"], None, "")
            for row in settings
            if row["setting"] == setting
        )
    ]
    return Row(label="image disk used %", shape="curve", curve=_curve("%", points, limits))


def _signal(signal: str, label: str, rows: list[ViewRow], settings: list[ViewRow]) -> Row:
    capacity = rows[-1]["capacity"]
    scale, unit = 1, ""
    if not signal.endswith(("inodesFree", "pid.available")):
        scale, unit = next((each for each in _UNITS if capacity >= each[0]), (1, "B"))
    limits = []
    for setting, words in (("evictionHard", "evicts below"), ("evictionSoft", "soft")):
        limits += _limits(
            (row["ts_ns"], *_threshold(row["value"], signal, capacity, scale, words))
            for row in settings
            if row["setting"] == setting
        )
    points = [(row["ts_ns"], round(row["available"] / scale, 3)) for row in rows]
    return Row(label=label, shape="curve", curve=_curve(unit, points, limits))


def _threshold(
    setting: str | None, signal: str, capacity: int, scale: int, words: str
) -> tuple[float | None, str]:
    values = json.loads(setting) if setting else None
    text = values.get(signal) if isinstance(values, dict) else None
    if not isinstance(text, str):
        return None, ""
    try:
        amount = capacity * float(text[:-1]) / 100 if text.endswith("%") else float(value_of(text))
    except ValueError:
        return None, ""
    return round(amount / scale, 3), f"{words} {text}"


def _limits(settings: Iterable[tuple[int, float | None, str]]) -> list[Limit]:
    """Each value from the process that had it first to the one that had another."""
    limits: list[Limit] = []
    current: tuple[int, float, str] | None = None
    for ts_ns, value, label in settings:
        if current is not None and current[1] == value:
            continue
        if current is not None:
            limits.append(
                Limit(label=current[2], value=current[1], from_ns=current[0], to_ns=ts_ns)
            )
        current = None if value is None else (ts_ns, value, label)
    if current is not None:
        limits.append(Limit(label=current[2], value=current[1], from_ns=current[0], to_ns=None))
    return limits


def _curve(unit: str, points: list[tuple[int, float]], limits: list[Limit]) -> Curve | None:
    """Without the points between two of the same value, and thinned where there are too many."""
    if not points:
        return None
    kept = [
        point
        for index, point in enumerate(points)
        if index in (0, len(points) - 1) or point[1] != points[index - 1][1]
    ]
    return Curve(unit=unit, points=_thinned(kept), limits=limits)


def _thinned(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Of each stretch the lowest and the highest point: what is thinned out is no peak."""
    stretch = -(-2 * len(points) // _POINTS_MAX)
    if stretch <= 2:
        return points
    kept: list[tuple[int, float]] = []
    for index in range(0, len(points), stretch):
        part = points[index : index + stretch]
        lowest, highest = (choose(part, key=lambda point: point[1]) for choose in (min, max))
        kept += sorted({lowest, highest})
    return kept
