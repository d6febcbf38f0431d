"""Traces for Perfetto, read back: tracks, slices, instants, flows, counters and annotations."""

import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.analyze.sql.api import connect
from kubeledger.cli.main import cli
from kubeledger.ledger.ledger import Ledger
from kubeledger.timeline import NodeView, build_drawing

RECORDED = ("node-a", "node-e-evictions")


class Event(msgspec.Struct, frozen=True):
    """A slice, an instant or a value of a counter, as a viewer shows it.

    Attributes:
        path: names of its track and those above it, the node first.
        end_ns: its start, of an instant; None: it never ends.
    """

    path: tuple[str, ...]
    name: str
    start_ns: int
    end_ns: int | None
    notes: Mapping[str, Any]
    value: float = 0.0


class Trace:
    """What a trace holds.

    Attributes:
        events: slices and instants in the order of their beginning.
        counters: (name of the track, unit) -> time and value.
        flows: from which event to which.
    """

    def __init__(self, data: bytes) -> None:
        """Read it as the format is described, and refuse what a viewer would have to guess."""
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as Packets

        packets = Packets()
        packets.ParseFromString(data)
        self.events: list[Event] = []
        self.counters: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
        self.flows: list[tuple[Event, Event]] = []
        self._tracks: dict[int, Any] = {}
        self._open: dict[int, int] = {}
        self._flowing: dict[int, Event] = {}
        times: dict[int, int] = {}
        for packet in packets.packet:
            if packet.HasField("track_descriptor"):
                track = packet.track_descriptor
                assert track.uuid not in self._tracks
                assert not track.parent_uuid or track.parent_uuid in self._tracks
                self._tracks[track.uuid] = track
            elif packet.HasField("track_event"):
                sequence = packet.trusted_packet_sequence_id
                assert packet.timestamp >= times.get(sequence, 0)
                times[sequence] = packet.timestamp
                self._read(packet.track_event, packet.timestamp)
        assert not self._flowing

    def _path(self, uuid: int) -> tuple[str, ...]:
        track = self._tracks[uuid]
        above = self._path(track.parent_uuid) if track.parent_uuid else ()
        return (*above, track.name)

    def _read(self, event: Any, ts_ns: int) -> None:  # noqa: ANN401 # a message of the package
        track = self._tracks[event.track_uuid]
        if event.type == event.TYPE_COUNTER:
            name = track.name, track.counter.unit_name
            self.counters[name].append((ts_ns, event.double_counter_value))
            return
        if event.type == event.TYPE_SLICE_END:
            index = self._open.pop(event.track_uuid)
            began = self.events[index]
            self.events[index] = msgspec.structs.replace(began, end_ns=ts_ns)
            return
        is_slice = event.type == event.TYPE_SLICE_BEGIN
        notes = {
            note.name: [each.string_value for each in note.array_values]
            or note.string_value
            or note.int_value
            for note in event.debug_annotations
        }
        path = self._path(event.track_uuid)
        read = Event(path, event.name, ts_ns, None if is_slice else ts_ns, notes)
        if is_slice:
            assert event.track_uuid not in self._open, "slices of a track overlap"
            self._open[event.track_uuid] = len(self.events)
        self.events.append(read)
        for flow in event.terminating_flow_ids:
            self.flows.append((self._flowing.pop(flow), read))
        for flow in event.flow_ids:
            assert flow not in self._flowing
            self._flowing[flow] = read

    def flows_to(self, name: str) -> set[tuple[str, str]]:
        """Whence flows arrive at events whose name begins so, and on which track."""
        return {(a.name, b.path[-1]) for a, b in self.flows if b.name.startswith(name)}


def export(ledger: Path, *arguments: str) -> Result:
    """``kubeledger export --format perfetto``."""
    command = ["export", "--format", "perfetto", "--ledger", str(ledger), *arguments]
    return CliRunner().invoke(cli, command)


@pytest.fixture(scope="module")
def traces(ledgers: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trace]:
    made = {}
    for name in RECORDED:
        out = tmp_path_factory.mktemp("traces") / f"{name}.pftrace"
        result = export(ledgers[name], "--out", str(out))
        assert result.exit_code == 0, result.output
        assert str(out) in result.stderr
        made[name] = Trace(out.read_bytes())
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_all_that_is_drawn(traces: dict[str, Trace], ledgers: dict[str, Path], name: str) -> None:
    """Each item of the drawing with its time, record, verdict and evidence, and nothing else."""
    trace = traces[name]
    node = trace.events[0].path[0].removeprefix("node ")
    with connect(ledgers[name]) as queryable:
        (history,) = histories_of_ledger(Ledger.open(ledgers[name]))
        view = NodeView(queryable, node, history=history)
        drawing = build_drawing(view, apart=True)
        reported = {
            row["seq"]: row
            for row in view(
                "SELECT events.seq, events.kind, verdict FROM events"
                " LEFT JOIN verdicts ON decision_seq = events.seq WHERE events.node = $node"
            )
        }
        places = defaultdict(list)
        for row in view("SELECT seq, source_file, source_line FROM evidence WHERE node = $node"):
            line = "" if row["source_line"] is None else f":{row['source_line']}"
            places[row["seq"]].append(f"{row['source_file']}{line}")
    drawn = Counter(
        (item.start_ns, item.end_ns, item.seq)
        for section in drawing.sections
        for row in section.rows
        for item in row.items
    )
    written = Counter(
        (event.start_ns, event.end_ns, event.notes.get("record", 0))
        for event in trace.events
        if not event.name.startswith("preempts ")
    )
    assert written == drawn
    assert len(trace.events) > 500
    for event in trace.events:
        if seq := event.notes.get("record"):
            assert event.notes["kind"] == reported[seq]["kind"]
            assert event.notes.get("verdict") == reported[seq]["verdict"]
            assert sorted(event.notes.get("evidence", ())) == sorted(places[seq])


def test_pods_and_containers(traces: dict[str, Trace]) -> None:
    """A track a pod, tracks of its containers below it, ticks below these."""
    pod = ("node node-a", "Pods with problems (13)", "default/live-fail")
    names: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for event in traces["node-a"].events:
        if event.path[:3] == pod:
            names[event.path[3:]].add(event.name)
    assert names[()] == {
        "admitted",
        "waits sandbox 21×: CreatePodSandboxError: OCI runtime create failed: cgroups in hybrid"
        " mode not supported, drop all controllers from cgroupv2",
        "pod admitted",
    }
    assert {"running", "running #1", "killed liveness probe", "threshold liveness failed"} <= names[
        ("app",)
    ]
    assert any(name.startswith("backoff back-off ") for name in names["app",])
    assert names["app", "probes"] == {"failure liveness", "success liveness"}


def test_flows(traces: dict[str, Trace]) -> None:
    assert traces["node-a"].flows_to("preempted for kube-system/critical-1") == {
        ("preempts default/filler-c", "default/filler-c"),
        ("preempts default/gpu-a", "default/gpu-a"),
    }
    kills = traces["node-a"].flows_to("killed")
    assert ("threshold liveness failed", "app") in kills
    assert ("preempted for kube-system/critical-1", "train") in kills
    evicted = traces["node-e-evictions"].flows_to("evicted")
    assert evicted
    assert all(name.startswith("reclaim ") for name, _ in evicted)


def test_counters(traces: dict[str, Trace]) -> None:
    counters = traces["node-a"].counters
    free = [value for _, value in counters["example.com/gpu free", "devices"]]
    assert free == [2, 1, 3, 2, 0, 2]
    shares = counters["kubepods/burstable cpu_shares", "shares"]
    assert [value for _, value in shares[:4]] == [2, 307, 1024, 1280]
    assert ("kubepods/burstable cpu_quota_us", "µs") not in counters
    disk = [value for _, value in counters["image disk used %", "%"]]
    assert 71 < min(disk) < max(disk) < 73
    assert ("memory available", "GiB") in counters


@pytest.mark.slow
def test_a_pod_and_a_time(ledgers: dict[str, Path], tmp_path: Path) -> None:
    by_name = export(ledgers["node-a"], "--pod", "default/gpu-a").stdout_bytes
    with connect(ledgers["node-a"]) as queryable:
        query = "SELECT DISTINCT pod_uid FROM admissions WHERE pod = 'gpu-a'"
        ((uid,),) = queryable.sql(query).fetchall()
    assert export(ledgers["node-a"], "--pod", uid).stdout_bytes == by_name
    until = "2026-11-21T03:00:00Z"
    early = Trace(export(ledgers["node-a"], "--pod", "gpu-a", "--until", until).stdout_bytes)
    pods = {event.path[2] for event in early.events if "pods" in event.path[1].lower()}
    assert pods == {"default/gpu-a"}
    assert "preempted" not in "".join(event.name for event in early.events)
    assert "is it pod" in export(ledgers["node-a"], "--pod", "default/gpu-").stderr


def test_a_kind_of_records_is_refused(ledgers: dict[str, Path]) -> None:
    result = export(ledgers["node-a"], "--kind", "images.*")
    assert result.exit_code == 2
    assert "--kind is for records" in result.stderr


@pytest.mark.slow
def test_a_redacted_trace(ledgers: dict[str, Path]) -> None:
    plain = export(ledgers["node-a"]).stdout_bytes
    hidden = export(ledgers["node-a"], "--redact").stdout_bytes
    names = [b"node-a", b"gpu-a", b"live-fail", b"registry.local", b"warmup"]
    assert [name in plain for name in names] == [True] * len(names)
    assert [name in hidden for name in names] == [False] * len(names)
    assert len(Trace(hidden).events) == len(Trace(plain).events)


def test_without_the_package(
    ledgers: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "perfetto.protos.perfetto.trace", None)
    result = export(ledgers["node-a"], "--out", str(tmp_path / "x.pftrace"))
    assert result.exit_code == 2
    assert "pip install 'kubeledger[perfetto]'" in result.stderr
    assert not list(tmp_path.iterdir())
