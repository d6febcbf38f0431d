"""Containers' tracks: a bar for each container ID, and the back-off between two of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from kubeledger.model.units import parse_api_ts
from kubeledger.timeline.drawing import Item, NodeView, ViewRow

_NAMES = ("namespace", "pod", "pod_uid", "container")
_PLACE = ", ".join(_NAMES)
_KINDS = {"success": "tick_success", "failure": "tick_failure"}
_RUN_GAP = 2
"""Runs of one probe with the same result are one, unless more than this many periods pass."""


class _Run(msgspec.Struct):
    """Ticks of one probe with the same result, one after the other."""

    place: tuple[str | None, ...]
    kind: str
    start_ns: int
    end_ns: int
    label: str
    seq: int
    count: int

    def goes_on(self, kind: str, start_ns: int) -> bool:
        """Whether a run begins a period or two after the last tick of this one."""
        if kind != self.kind:
            return False
        period_ns = (self.end_ns - self.start_ns) // (self.count - 1)
        return start_ns - self.end_ns <= _RUN_GAP * period_ns

    def drawn(self) -> tuple[ViewRow, Item]:
        """A row that names the container, and the item."""
        item = Item(self.kind, self.start_ns, self.end_ns, self.label, self.seq, self.count)
        return dict(zip(_NAMES, self.place, strict=True)), item


def add_ticks(view: NodeView) -> Iterator[tuple[ViewRow, Item]]:
    """Ticks in the order of time, with a row that names their container."""
    runs: dict[tuple[str | None, ...], _Run] = {}
    for *place, probe_type, result, count, start_ns, end_ns, seq, _ in view.ordered(
        "probe_tick_runs",
        f"{_PLACE}, probe_type, result, count, epoch_ns(first_ts), epoch_ns(last_ts)",
        "container IS NOT NULL",
    ):
        kind = _KINDS.get(result, "tick_other")
        key = (*place[1:], probe_type)
        run = runs.pop(key, None)
        if run is not None and (count == 1 or not run.goes_on(kind, start_ns)):
            yield run.drawn()
            run = None
        if run is None:
            run = _Run(tuple(place), kind, start_ns, end_ns, probe_type or "", seq, count)
        else:
            run.end_ns = end_ns
            run.count += count
        if count == 1:
            yield run.drawn()
        else:
            runs[key] = run
    for run in runs.values():
        yield run.drawn()


class ContainerTrack(msgspec.Struct):
    """What one container's records show: a bar for each of its instances.

    Attributes:
        bars: instances and the marks of their ends.
        starts: when instances began.
        back_offs: restarts that were put off.
    """

    bars: list[Item] = msgspec.field(default_factory=list)
    starts: list[int] = msgspec.field(default_factory=list)
    back_offs: list[ViewRow] = msgspec.field(default_factory=list)

    @property
    def first_start_ns(self) -> int | None:
        """When the first instance began; None where none is recorded."""
        return min(self.starts, default=None)

    def items(self, pod_ended_ns: int | None) -> list[Item]:
        """All of it; a back-off lasts until the next start, or the end of the pod."""
        return [*self.bars, *self._back_off_bars(pod_ended_ns)]

    def _back_off_bars(self, pod_ended_ns: int | None) -> Iterator[Item]:
        until_ns: int | None = 0
        for row in self.back_offs:
            if until_ns is None or row["ts_ns"] < until_ns:
                continue
            until_ns = min((ns for ns in self.starts if ns > row["ts_ns"]), default=pod_ended_ns)
            if until_ns is not None and until_ns < row["ts_ns"]:
                until_ns = row["ts_ns"]
            label = f"back-off {row['back_off_s']} s"
            yield Item("backoff", row["ts_ns"], until_ns, label, row["seq"])


def container_tracks(view: NodeView, begin_ns: int) -> Iterator[tuple[ViewRow, ContainerTrack]]:
    """The track of each container, with a row that names it.

    A kubelet that starts reports all containers that run, so one ID may start twice: one instance.
    An instance that began before the records do begins where the pod's status says, or just before
    ``begin_ns`` where it is not known; the page draws such bars without a left edge.

    Args:
        begin_ns: when the node's records begin.
    """
    counts = {
        row["container_id"]: row["restart_count"]
        for row in view.rows("container_restarts", "container_id, restart_count")
    }
    earlier = _started_before(view, begin_ns)
    tracks: dict[tuple[str | None, str | None], tuple[ViewRow, ContainerTrack]] = {}

    def of(row: ViewRow) -> ContainerTrack:
        return tracks.setdefault((row["pod_uid"], row["container"]), (row, ContainerTrack()))[1]

    states: dict[str, list[ViewRow]] = defaultdict(list)
    for row in view.rows(
        "container_states",
        f"{_PLACE}, container_id, state, exit_code, cause_seq",
        "NOT coalesce(sandbox, false) AND container IS NOT NULL",
    ):
        states[row["container_id"]].append(row)
    admitted = {row["pod_uid"] for row in view.rows("admissions", "pod_uid", "admitted")}
    for container_id, rows in states.items():
        track = of(rows[0])
        start = next((row for row in rows if row["state"] == "started"), None)
        end = next((row for row in rows if row["state"] == "died"), None)
        count = counts.get(container_id)
        start_ns = earlier.get(container_id, start["ts_ns"] if start else None)
        if start_ns is None and not track.starts and rows[0]["pod_uid"] not in admitted:
            start_ns = begin_ns - 1
        if start_ns is not None:
            track.starts.append(start_ns)
            end_ns = None if end is None else max(end["ts_ns"], start_ns)
            label, seq = f"#{count}" if count else "", (start or rows[0])["seq"]
            track.bars.append(Item("running", start_ns, end_ns, label, seq))
        if end is not None:
            track.bars += _end_of(end)
    for row in view.rows("restart_backoffs", f"{_PLACE}, back_off_s"):
        if row["container"]:
            of(row).back_offs.append(row)
    yield from tracks.values()


def _end_of(row: ViewRow) -> Iterator[Item]:
    code = row["exit_code"]
    if code == 0 or (code and row["cause_seq"] is None):
        kind, ts_ns = "died" if code else "completed", row["ts_ns"]
        yield Item(kind, ts_ns, ts_ns, f"exit code {code}", row["seq"])


def _started_before(view: NodeView, begin_ns: int) -> dict[str, int]:
    """Container ID -> its start by the statuses, of those that ran before the records begin."""
    found = {}
    for row in view(
        """SELECT DISTINCT split_part(status ->> 'containerID', '://', 2) AS container_id,
            coalesce(status -> 'state' -> 'running' ->> 'startedAt',
                status -> 'state' -> 'terminated' ->> 'startedAt') AS started
        FROM (
            SELECT unnest((status -> 'containerStatuses')::JSON[]) AS status
            FROM pods WHERE node = $node AND status IS NOT NULL
        ) WHERE started IS NOT NULL"""
    ):
        try:
            started_ns = parse_api_ts(row["started"])
        except ValueError:
            continue
        # The API has whole seconds: what began in the first one may have begun in the records.
        if started_ns < begin_ns - 1_000_000_000:
            found[row["container_id"]] = started_ns
    return found
