"""A drawing as a Perfetto trace: what the page shows, for ui.perfetto.dev and its SQL.

docs/python.md says what stands for what. The package ``perfetto`` is an extra, so it is imported
only when a trace is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

import msgspec

from kubeledger.model.errors import BadQuestionError
from kubeledger.timeline.drawing import Drawing, Item, NodeView, Row

_CGROUP_VALUES = {"memory_limit_bytes": "bytes", "cpu_shares": "shares", "cpu_quota_us": "µs"}


class Counter(msgspec.Struct, frozen=True):
    """A quantity that keeps each value until the next.

    Attributes:
        name: of the quantity.
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


_EXPLICIT = 3
"""``TrackDescriptor.ChildTracksOrdering``: by rank."""
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
"""``TrackEvent.Type``."""
_REALTIME, _BOOTTIME = 1, 6
"""``BuiltinClock``; a trace's times are those of the second."""
_CLEARED = 1
"""``TracePacket.SequenceFlags``: nothing before this packet is referred to."""
_PODS = frozenset({"problems", "pods"})
_KINDS = {
    "admission": "pod",
    "sandbox": "another sandbox",
    "stuck": "waits",
    "held0": "held",
    "held1": "held",
    "tick_success": "success",
    "tick_failure": "failure",
    "tick_other": "no result",
}
"""Kinds that only a page distinguishes."""

_RECORDS = """
WITH pieces AS (
    SELECT seq, list(source_file || coalesce(':' || source_line, '')) AS places
    FROM evidence WHERE node = $node GROUP BY seq
)
SELECT record.seq, record.kind, record.cause_seq, verdict, why, coalesce(places, []) AS places
FROM events AS record
LEFT JOIN verdicts ON verdicts.node = record.node AND decision_seq = record.seq
LEFT JOIN pieces ON pieces.seq = record.seq
WHERE record.node = $node"""


class _Info(msgspec.Struct, frozen=True, gc=False):
    """What annotations say of a record."""

    kind: str
    cause: int | None
    verdict: str | None
    why: str | None
    places: Sequence[str]


class _Event(msgspec.Struct, kw_only=True, gc=False):
    """One event of a track.

    Attributes:
        order: of events at one time: ends, then what begins, cause before effect.
        starts, ends: flows that leave it, that arrive at it.
    """

    ts_ns: int
    order: tuple[int, int]
    type: int
    track: int
    name: str = ""
    category: str = ""
    seq: int = 0
    value: float = 0.0
    starts: list[int] = msgspec.field(default_factory=list)
    ends: list[int] = msgspec.field(default_factory=list)


def write_trace(drawings: Iterable[tuple[NodeView, Drawing]], file: IO[bytes]) -> int:
    """Write the nodes' histories as one trace.

    Args:
        drawings: nodes' views with what is drawn of them, pods and containers apart.

    Returns:
        how many bytes.

    Raises:
        BadQuestionError: the package ``perfetto`` is not installed.
    """
    proto = _proto()
    count = 0
    for index, (view, drawing) in enumerate(drawings):
        trace = proto.Trace()
        for packet in _Node(proto, index, view, drawing).packets():
            trace.packet.append(packet)
            if len(trace.packet) == _PACKETS:
                count += file.write(trace.SerializeToString())
                trace.Clear()
        count += file.write(trace.SerializeToString())
    return count


_PACKETS = 1000
"""As many are written at once; traces follow one another in a file."""


def _proto() -> Any:  # noqa: ANN401 # a generated module
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2
    except ImportError:
        raise BadQuestionError(
            "a Perfetto trace needs the package perfetto, which is not installed",
            advice="pip install 'kubeledger[perfetto]'",
        ) from None
    return perfetto_trace_pb2


class _Node:
    """One node's part of a trace: tracks, their events, and the flows between these."""

    def __init__(self, proto: Any, index: int, view: NodeView, drawing: Drawing) -> None:  # noqa: ANN401 # a generated module
        self._proto = proto
        self._sequence = index + 1
        self._view = view
        self._drawing = drawing
        self._tracks: list[Any] = []
        self._ranks: dict[int, int] = defaultdict(int)
        self._events: list[_Event] = []
        self._marks: dict[int, _Event] = {}
        self._labels: dict[int, str] = {}
        self._infos: dict[int, _Info] = {}
        self._flows = 0

    def packets(self) -> Iterator[Any]:
        """Tracks before their events, events in the order of time."""
        root = self._track(f"node {self._drawing.node}", 0)
        for section in self._drawing.sections:
            parent = self._track(section.title, root)
            self._rows(section.rows, parent, of_pods=section.id in _PODS)
        self._counters(counters(self._view, self._drawing), root)
        self._infos = {seq: _Info(*known) for seq, *known in self._view.tuples(_RECORDS)}
        self._preemptions()
        self._causes()
        yield self._clocks()
        for descriptor in self._tracks:
            yield self._packet(track_descriptor=descriptor)
        for event in sorted(self._events, key=lambda event: (event.ts_ns, event.order)):
            yield self._packet(timestamp=event.ts_ns, track_event=self._track_event(event))

    # --- tracks -------------------------------------------------------------------------

    def _track(self, name: str, parent: int, description: str = "") -> int:
        """A new track after those that its parent has."""
        uuid = (self._sequence << 32) + len(self._tracks) + 1
        fields: dict[str, Any] = {"parent_uuid": parent, "sibling_order_rank": self._ranks[parent]}
        self._ranks[parent] += 1
        if description:  # thresholds of a curve
            fields["description"] = description
        self._tracks.append(
            self._proto.TrackDescriptor(
                uuid=uuid, name=name, child_ordering=_EXPLICIT, **(fields if parent else {})
            )
        )
        return uuid

    def _rows(self, rows: Sequence[Row], parent: int, *, of_pods: bool) -> None:
        """A track a row: containers below their pod, ticks below their container."""
        pod = lane = parent
        for row in rows:
            if row.curve is not None:
                limits = ", ".join(dict.fromkeys(limit.label for limit in row.curve.limits))
                self._counter(Counter(row.label, row.curve.unit, row.curve.points), parent, limits)
                continue
            name = f"{row.label} ({row.note})" if row.note else row.label
            if row.shape == "ticks":
                self._items(row, self._track("probes", lane), lane)
            elif row.depth and of_pods:
                lane = self._track(name, pod)
                self._items(row, lane, pod)
            else:
                pod = lane = self._track(name, parent)
                self._items(row, lane, parent)

    def _items(self, row: Row, track: int, parent: int) -> None:
        """Slices and instants; slices that overlap go to tracks of the same name, shown as one."""
        lanes: list[tuple[int, int | None]] = []
        name = self._tracks[(track & 0xFFFFFFFF) - 1].name
        for item in sorted(row.items, key=lambda item: (item.start_ns, item.seq)):
            at = track
            if item.end_ns != item.start_ns:
                free = (
                    index
                    for index, (_, end_ns) in enumerate(lanes)
                    if end_ns is not None and end_ns <= item.start_ns
                )
                index = next(free, len(lanes))
                if index == len(lanes):
                    lanes.append((self._track(name, parent) if lanes else track, None))
                at = lanes[index][0]
                lanes[index] = (at, item.end_ns)
            self._item(item, at, row.label)

    def _item(self, item: Item, track: int, label: str) -> None:
        kind = _KINDS.get(item.kind, item.kind).replace("_", " ")
        is_instant = item.end_ns == item.start_ns
        event = _Event(
            ts_ns=item.start_ns,
            order=(1, item.seq),
            type=_INSTANT if is_instant else _BEGIN,
            track=track,
            name=item.label if item.label.startswith(kind) else f"{kind} {item.label}".rstrip(),
            category=kind,
            seq=item.seq,
        )
        self._events.append(event)
        if item.seq:
            known = self._marks.get(item.seq)
            if known is None or (is_instant and known.type != _INSTANT):
                self._marks[item.seq] = event
                self._labels[item.seq] = label
        if not is_instant and item.end_ns is not None:
            end = _Event(ts_ns=item.end_ns, order=(0, item.seq), type=_END, track=track)
            self._events.append(end)

    def _counters(self, found: Iterable[Counter], root: int) -> None:
        by_group: dict[str, int] = {}
        for counter in found:
            if counter.group not in by_group:
                by_group[counter.group] = self._track(counter.group, root)
            self._counter(counter, by_group[counter.group])

    def _counter(self, counter: Counter, parent: int, description: str = "") -> None:
        track = self._track(counter.name, parent, description)
        self._tracks[-1].counter.unit_name = counter.unit
        self._events += [
            _Event(ts_ns=ts_ns, order=(1, 0), type=_COUNTER, track=track, value=value)
            for ts_ns, value in counter.points
        ]

    # --- flows --------------------------------------------------------------------------

    def _preemptions(self) -> None:
        """From the preemptor's own track, when it preempted, to each victim's mark."""
        for arrow in self._drawing.arrows:
            preemptor, victim = self._marks.get(arrow.from_seq), self._marks.get(arrow.to_seq)
            if preemptor is None or victim is None or arrow.quiet:
                continue
            # The mark of the preemptor is its admission, which comes later.
            began = _Event(
                ts_ns=victim.ts_ns,
                order=(1, arrow.to_seq - 1),
                type=_INSTANT,
                track=preemptor.track,
                name=f"preempts {self._labels[arrow.to_seq]}",
                category="preempts",
                seq=arrow.to_seq,
            )
            self._events.append(began)
            self._flow(began, victim)

    def _causes(self) -> None:
        """From each record's nearest cause that is drawn."""
        for seq, effect in sorted(self._marks.items()):
            info = self._infos.get(seq)
            above = info.cause if info else None
            while above is not None and above not in self._marks:
                cause = self._infos.get(above)
                above = cause.cause if cause else None
            if above is not None and self._marks[above].ts_ns <= effect.ts_ns:
                self._flow(self._marks[above], effect)

    def _flow(self, start: _Event, end: _Event) -> None:
        self._flows += 1
        flow = (self._sequence << 32) + self._flows
        start.starts.append(flow)
        end.ends.append(flow)

    # --- packets ------------------------------------------------------------------------

    def _packet(self, **fields: Any) -> Any:  # noqa: ANN401 # messages of a generated module
        return self._proto.TracePacket(trusted_packet_sequence_id=self._sequence, **fields)

    def _clocks(self) -> Any:  # noqa: ANN401 # as above
        """Times are those of the wall clock, and are shown so."""
        packet = self._packet(timestamp=self._drawing.start_ns, sequence_flags=_CLEARED)
        for clock in (_BOOTTIME, _REALTIME):
            packet.clock_snapshot.clocks.add(clock_id=clock, timestamp=self._drawing.start_ns)
        packet.clock_snapshot.primary_trace_clock = _BOOTTIME
        return packet

    def _track_event(self, event: _Event) -> Any:  # noqa: ANN401 # as above
        written = self._proto.TrackEvent(type=event.type, track_uuid=event.track)
        if event.type == _COUNTER:
            written.double_counter_value = event.value
        if event.name:
            written.name = event.name
            written.categories.append(event.category)
        written.flow_ids.extend(event.starts)
        written.terminating_flow_ids.extend(event.ends)
        if event.seq:
            self._annotate(written, event.seq)
        return written

    def _annotate(self, written: Any, seq: int) -> None:  # noqa: ANN401 # as above
        written.debug_annotations.add(name="record", int_value=seq)
        info = self._infos.get(seq)
        if info is None:
            return
        for name in ("kind", "verdict", "why"):
            if text := getattr(info, name):
                written.debug_annotations.add(name=name, string_value=text)
        if info.places:
            places = written.debug_annotations.add(name="evidence")
            for place in info.places:
                places.array_values.add(string_value=place)
