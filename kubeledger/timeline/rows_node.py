"""The node itself: kubelet processes and their log, pressure, GC runs, decisions without a row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from msgspec.structs import replace

from kubeledger.analyze.completeness import log_gaps
from kubeledger.analyze.problems.rows import HARMLESS_S
from kubeledger.kubelet.kube.quantity import value_of
from kubeledger.model.units import NS_PER_S
from kubeledger.timeline.drawing import Curve, Limit, NodeView, Row, Section, ViewRow

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
    rows = rows or view.rows(
        "image_fs",
        "available_bytes AS available, capacity_bytes AS capacity",
        "capacity_bytes > 0 AND available_bytes IS NOT NULL",
    )
    points = [
        (row["ts_ns"], round(100 * (1 - row["available"] / row["capacity"]), 2)) for row in rows
    ]
    limits = [
        limit
        for word in ("High", "Low")
        for limit in _limits(
            settings, f"imageGC{word}ThresholdPercent", partial(_percent, word.lower())
        )
    ]
    return Row(label="image disk used %", shape="curve", curve=_curve("%", points, limits))


def _percent(word: str, value: str | None) -> tuple[float | None, str]:
    return (float(value), f"{word} {value} %") if value and value.isdecimal() else (None, "")


def _signal(signal: str, label: str, rows: list[ViewRow], settings: list[ViewRow]) -> Row:
    capacity = rows[-1]["capacity"]
    scale, unit = 1, ""
    if not signal.endswith(("inodesFree", "pid.available")):
        scale, unit = next((each for each in _UNITS if capacity >= each[0]), (1, "B"))
    limits = []
    for setting, words in (("evictionHard", "evicts below"), ("evictionSoft", "soft")):
        limits += _limits(settings, setting, partial(_threshold, signal, capacity, scale, words))
    points = [(row["ts_ns"], round(row["available"] / scale, 3)) for row in rows]
    return Row(label=label, shape="curve", curve=_curve(unit, points, limits))


def _threshold(
    signal: str, capacity: int, scale: int, words: str, setting: str | None
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


def _limits(
    settings: Iterable[ViewRow],
    setting: str,
    read: Callable[[str | None], tuple[float | None, str]],
) -> list[Limit]:
    """Each value of a setting from the process that had it first to the one that had another."""
    limits: list[Limit] = []
    value: float | None = None
    for row in (each for each in settings if each["setting"] == setting):
        before, (value, label) = value, read(row["value"])
        if value == before:
            continue
        if before is not None:
            limits[-1] = replace(limits[-1], to_ns=row["ts_ns"])
        if value is not None:
            limits.append(Limit(label, value, row["ts_ns"], None))
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
    return Curve(unit, _thinned(kept), limits)


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


_DOWN_MIN_NS = 2_000_000_000
_RESOURCES = {
    "MemoryPressure": ("memory",),
    "DiskPressure": ("ephemeral-storage", "inodes"),
    "PIDPressure": ("pids",),
}
_MINOR_FINDINGS = ("clock_",)
"""They have a mark of their own."""


def node_section(view: NodeView) -> Section:
    """Rows of the node, in the order of the page; without those that have no records."""
    rows = [
        _kubelets(view),
        _log(view),
        *_conditions(view),
        *_troubles(view),
        *curve_rows(view),
        _gc_runs(view),
        _reclaims(view),
        _oom_kills(view),
    ]
    return Section(id="node", title="Node", rows=[row for row in rows if row.items or row.curve])


def _kubelets(view: NodeView) -> Row:
    """A bar for each process; hatched from the last record of one to the start of the next."""
    row = Row(label="kubelet")
    starts = view.rows(
        "kubelet_starts",
        "pid, kubelet_version, restart, from_start, epoch_ns(exited_ts) AS exited_ns",
    )
    last = view(
        """SELECT start.seq, max(record.ts_ns) AS last_ns
        FROM (SELECT seq, lag(seq) OVER (ORDER BY seq) AS previous FROM kubelet_starts
            WHERE node = $node) AS start
        JOIN events AS record ON record.node = $node AND record.seq < start.seq
            AND record.seq > start.previous AND record.source_line IS NOT NULL
        GROUP BY start.seq"""
    )
    first_lines_ns = {each["seq"]: each["last_ns"] for each in last}
    for index, start in enumerate(starts):
        following = starts[index + 1] if index + 1 < len(starts) else None
        end_ns = start["exited_ns"]
        if end_ns is None and following is not None:
            first_line_ns = first_lines_ns.get(following["seq"], following["ts_ns"])
            end_ns = min(first_line_ns, following["ts_ns"])
        version = start["kubelet_version"] or "kubelet"
        pid = f" pid {start['pid']}" if start["pid"] else ""
        row.bar("kubelet", start["ts_ns"], end_ns, f"{version}{pid}", start["seq"])
        if following and end_ns and following["ts_ns"] - end_ns > _DOWN_MIN_NS:
            row.bar("gap", end_ns, following["ts_ns"], "no sign of a kubelet", following["seq"])
        if start["from_start"] or start["restart"]:  # else it ran before the log begins
            kind = "kubelet_restart" if start["restart"] else "kubelet_start"
            word = "restarted" if start["restart"] else "started"
            word = word if start["from_start"] else "first seen"
            row.mark(kind, start["ts_ns"], f"{version}{pid} {word}", start["seq"])
    for each in view.rows("events", "body", f"kind IN {_PROCESS_ENDS}"):
        body = json.loads(each["body"])
        if "step" in body:
            label = " ".join(filter(None, ("shutdown", body["step"], body.get("message"))))
            row.mark("shutdown", each["ts_ns"], label, each["seq"])
        elif body["reason"] != "stopped":
            row.mark("kubelet_end", each["ts_ns"], body["message"] or "", each["seq"])
    for each in view.rows("kubernetes_events", "message", "reason = 'Rebooted'"):
        row.mark("rebooted", each["ts_ns"], each["message"], each["seq"])
    return row


_PROCESS_ENDS = ("node.KubeletExited", "node.ShutdownProgressed")


def _log(view: NodeView) -> Row:
    """What is missing in the log: holes, lines that were lost or cut, steps of the clock."""
    row = Row(label="log")
    if view.history is not None and view(_LOGGED):
        gaps = log_gaps(view.history)
        for hole in gaps.holes:
            names = ", ".join(dict.fromkeys(gap.activity for gap in hole.activities))
            label = f"silent: missing are {names}"
            row.bar("gap", hole.from_ts_ns, hole.to_ts_ns, label)
        for lost in gaps.lost:
            cut = f"{lost.cut:,} lines cut" if lost.cut else ""
            gone = f"{lost.missing:,} of {lost.expected:,} periodic lines" if lost.missing else ""
            label = f"lines lost: {', '.join(each for each in (gone, cut) if each)}"
            row.bar("gap", lost.from_ts_ns, lost.to_ts_ns, label, lost.seq)
        for step in gaps.clock_steps:
            back_s = (step.from_ts_ns - step.to_ts_ns) / 1e9
            row.mark("clock_step", step.to_ts_ns, f"clock set back by {back_s:.1f} s", step.seq)
    for finding in view.rows("findings", "finding, message"):
        if not finding["finding"].startswith(_MINOR_FINDINGS):
            label = f"{finding['finding'].replace('_', ' ')}: {finding['message']}"
            row.mark("finding", finding["ts_ns"], label, finding["seq"])
    return row


_LOGGED = """SELECT 1 FROM evidence WHERE node = $node AND source_line IS NOT NULL
    UNION ALL SELECT 1 FROM events
    WHERE node = $node AND kind IN ('node.ClockStepped', 'node.LogThinned') LIMIT 1"""
"""Whether anything comes of a log: without its lines there is none that could be missing."""

_READY = {"True": "ready", "False": "not_ready", "Unknown": "ready_unknown"}


def _conditions(view: NodeView) -> list[Row]:
    """Readiness all the time, and each pressure as long as it is reported."""
    found: dict[str, Row] = {}
    reclaims = view.rows("reclaims", "signal, resource")
    columns = "condition, status, reason, message, epoch_ns(until_ts) AS until_ns"
    for each in view.rows("node_conditions", columns):
        condition, end_ns = each["condition"], each["until_ns"]
        label = each["message"] or each["reason"] or ""
        if condition == "Ready":
            kind = _READY[each["status"]]
            label = "" if kind == "ready" else label
        elif each["status"] == "True":
            kind = "pressure"
            label = ", ".join(_signals(reclaims, [condition], each["ts_ns"], end_ns)) or label
        else:
            continue
        row = found.setdefault(condition, Row(label=condition))
        row.bar(kind, each["ts_ns"], end_ns, label, each["seq"])
    return [found[name] for name in ("Ready", *_RESOURCES) if name in found]


def _troubles(view: NodeView) -> list[Row]:
    """A row for each thing that did not work, for several do at a time.

    None for what each start brings along: it was over at once.
    """
    found: dict[str, Row] = {}
    told: set[str] = set()
    for each in view.rows(
        "node_troubles",
        "trouble, message, attempts, epoch_ns(coalesce(passed_ts, last_ts)) AS until_ns, "
        "passed_ts IS NULL AS is_open",
    ):
        name = each["trouble"].replace("_", " ")
        if each["is_open"] or each["until_ns"] - each["ts_ns"] >= HARMLESS_S * NS_PER_S:
            told.add(name)
        row = found.setdefault(name, Row(label=name))
        label = f"{each['attempts']}×: {each['message']}"
        row.bar("trouble", each["ts_ns"], each["until_ns"], label, each["seq"])
    return [row for name, row in found.items() if name in told]


def _oom_kills(view: NodeView) -> Row:
    """Those outside of pods."""
    row = Row(label="OOM kills")
    for each in view.rows("oom_kills", "process, cgroup", "pod_uid IS NULL"):
        label = each["process"] or each["cgroup"] or "a process"
        row.mark("oom", each["ts_ns"], label, each["seq"])
    return row


_BEFORE_NS = 1_000_000_000
"""The manager reclaims in the round in which it reports the condition, a moment before or after."""


def _signals(
    reclaims: Iterable[ViewRow], conditions: Iterable[str], start_ns: int, end_ns: int | None
) -> list[str]:
    resources = [name for each in conditions for name in _RESOURCES.get(each, ())]
    return list(
        dict.fromkeys(
            each["signal"]
            for each in reclaims
            if each["signal"]
            and each["resource"] in resources
            and each["ts_ns"] >= start_ns - _BEFORE_NS
            and (end_ns is None or each["ts_ns"] < end_ns)
        )
    )


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
    for each in view.rows("reclaims", "resource, signal, kind, outcome"):
        words = (each["kind"], each["signal"] or each["resource"], each["outcome"])
        label = " · ".join(word for word in words if word).replace("_", " ")
        kind = "reclaim_evicts" if each["outcome"] == "evicting" else "reclaim"
        row.mark(kind, each["ts_ns"], label, each["seq"])
    return row


def decisions_row(view: NodeView, drawn: set[int]) -> Row:
    """Decisions that are no match and have no mark elsewhere, and those that did not come.

    Args:
        drawn: records that have an item on another row.
    """
    row = Row(label="other decisions")
    for each in view.in_scope(
        """SELECT seq, decision_seq, kind, subject, verdict, epoch_ns(ts) AS ts_ns
        FROM verdicts WHERE node = $node AND verdict <> 'match' AND NOT inferred ORDER BY ts, seq"""
    ):
        if each["decision_seq"] is None:
            label = f"did not come: {each['kind']}, {each['subject']}"
            row.mark("not_taken", each["ts_ns"], label, each["seq"], each["verdict"])
        elif each["seq"] not in drawn:
            row.mark("decision", each["ts_ns"], f"{each['kind']}, {each['subject']}", each["seq"])
    return row
