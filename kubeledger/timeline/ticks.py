"""Probe ticks, one by one as in a log, in runs as a simulation folds them."""

from __future__ import annotations

from collections.abc import Iterator

from kubeledger.timeline.ask import NodeView, ViewRow
from kubeledger.timeline.drawing import Item

__all__ = ["add_ticks"]

_KINDS = {"success": "tick_success", "failure": "tick_failure"}
_RUN_GAP = 2
"""Runs of one probe with the same result are one, unless more than this many periods pass."""


def add_ticks(view: NodeView) -> Iterator[tuple[ViewRow, Item]]:
    """Ticks in the order of time, with a row that names their container."""
    runs: dict[tuple[str | None, ...], tuple[ViewRow, Item]] = {}
    for row in view.rows(
        "probe_tick_runs",
        "namespace, pod, pod_uid, container, probe_type, result, count, container_id,"
        " epoch_ns(first_ts) AS first_ns, epoch_ns(last_ts) AS last_ns",
        "container IS NOT NULL",
    ):
        item = Item(
            kind=_KINDS.get(row["result"], "tick_other"),
            start_ns=row["first_ns"],
            end_ns=row["last_ns"],
            label=row["probe_type"] or "",
            seq=row["seq"],
            count=row["count"],
        )
        key = (row["pod_uid"], row["pod"], row["container"], row["probe_type"])
        before = runs.pop(key, None)
        if row["count"] == 1:
            if before is not None:
                yield before
            yield row, item
            continue
        if before is not None and _goes_on(before[1], item):
            item = _joined(before[1], item)
        elif before is not None:
            yield before
        runs[key] = (row, item)
    yield from runs.values()


def _goes_on(run: Item, following: Item) -> bool:
    """Whether the second run begins a period or two after the last tick of the first."""
    if run.kind != following.kind:
        return False
    period_ns = (_end(run) - run.start_ns) // (run.count - 1)
    return following.start_ns - _end(run) <= _RUN_GAP * period_ns


def _joined(run: Item, following: Item) -> Item:
    return Item(
        kind=run.kind,
        start_ns=run.start_ns,
        end_ns=following.end_ns,
        label=run.label,
        seq=run.seq,
        count=run.count + following.count,
    )


def _end(item: Item) -> int:
    return item.start_ns if item.end_ns is None else item.end_ns
