"""Values that are not what their fields should hold: nothing of them harms the ledger."""

import json
from pathlib import Path
from typing import Any

import pytest

from kubeledger.ingest.api import import_sources
from kubeledger.ingest.ingest import NodeReport
from kubeledger.ingest.klog.account import shape_of
from kubeledger.ingest.klog.stamps import exact_json_ns
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ingest.sources.plain import plain
from kubeledger.ingest.sources.times import api_time
from kubeledger.ingest.sources.yaml_text import load_yaml
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.errors import BadInputError, BadQuestionError
from kubeledger.model.record import Record
from kubeledger.model.units import parse_ts
from tests.ingest.node_files import log_text, pod

Json = dict[str, Any]


def imported(tmp_path: Path, files: dict[str, object]) -> tuple[NodeReport, list[Record]]:
    """What an import of these files reports, and all its records, read back."""
    root = tmp_path / "node-x"
    root.mkdir()
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (root / name).write_text(text)
    ledger = Ledger.create(tmp_path / "ledger")
    report = import_sources([str(root)], ledger).bundles[0]
    return report, list(ledger.records(report.node))


def pods(*items: object) -> Json:
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": list(items)}


def with_fields(base: Json, **parts: Json) -> Json:
    """An object with fields of its parts replaced."""
    return {**base, **{part: {**base[part], **fields} for part, fields in parts.items()}}


def listed(records: list[Record]) -> dict[str, PodListed]:
    return {r.body.pod: r.body for r in records if isinstance(r.body, PodListed)}


def malformed(report: NodeReport) -> list[str]:
    """Messages of the findings about damaged content."""
    return [found.message for found in report.findings if found.finding == "malformed"]


@pytest.mark.parametrize(
    ("bad", "place"),
    [
        (with_fields(pod("bad"), metadata={"namespace": 7}), "metadata.namespace"),
        (with_fields(pod("bad"), metadata={"labels": ["x"]}), "metadata.labels"),
        (with_fields(pod("bad"), metadata={"annotations": {"a": 1}}), "metadata.annotations"),
        (with_fields(pod("bad"), spec={"containers": "x"}), "spec.containers"),
        (with_fields(pod("bad"), status={"containerStatuses": [1]}), "status.containerStatuses"),
        ({**pod("bad"), "spec": []}, "spec"),
        ({**pod("bad"), "metadata": None}, "metadata"),
    ],
)
def test_a_pod_of_other_types_is_rejected_alone(tmp_path: Path, bad: Json, place: str) -> None:
    """The finding names the field; the other pod of the list is recorded."""
    report, records = imported(tmp_path, {"pods.json": pods(bad, pod())})
    assert list(listed(records)) == ["web"]
    (message,) = malformed(report)
    assert place in message


def test_null_is_absent(tmp_path: Path) -> None:
    """As for Go: an empty text in a map, an absent field elsewhere."""
    odd = with_fields(pod(), metadata={"namespace": None, "annotations": {"a": None}})
    report, records = imported(tmp_path, {"pods.json": pods(odd)})
    assert malformed(report) == []
    body = listed(records)["web"]
    assert (body.namespace, body.annotations) == ("default", {"a": ""})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("node.json", {"kind": "Node", "metadata": {"name": "node-x"}, "status": "x"}),
        ("node.json", {"kind": "Node", "metadata": {"name": "node-x", "labels": {"a": 1}}}),
        ("node.json", {"kind": "Node", "metadata": "x"}),
        ("node.json", {"kind": "Node", "status": {"nodeInfo": "x"}}),
        ("node.json", {"kind": "Node", "status": {"allocatable": [1]}}),
        ("events.json", {"kind": "EventList", "items": [{"message": True}]}),
        ("events.json", {"kind": "EventList", "items": [{"involvedObject": {"uid": 5}}]}),
        ("events.json", {"kind": "EventList", "items": [{"series": 5}]}),
        ("pods.json", pods(with_fields(pod(), metadata={"name": "a\ud800"}))),
        ("pods.json", pods(with_fields(pod(), metadata={"generation": 10**40}))),
        ("pods.json", '{"kind":"PodList","items":[{"metadata":{"name":"a","x":NaN}}]}'),
        ("kubelet.yaml", "kind: KubeletConfiguration\n1: 2\nfeatureGates: {1: true, on: off}\n"),
        ("v1", "cpu/kubepods/cpu.cfs_quota_us 99999999999999999999999999\n"),
    ],
)
def test_foreign_types_are_findings(tmp_path: Path, name: str, content: object) -> None:
    """The import goes on, and all its records can be read back."""
    files = {"kubelet.log": log_text(), name: content}
    report, records = imported(tmp_path, files)
    assert malformed(report)
    assert report.added == len(records)
    assert report.by_kind["prober.ProbeExecuted"] == 19


def test_a_wrong_checksum_is_told_at_the_import(tmp_path: Path) -> None:
    """What assemblers find is reported like what readers find."""
    checkpoint = {"Data": {"PodDeviceEntries": None, "RegisteredDevices": {}}, "Checksum": 1}
    report, _ = imported(tmp_path, {"kubelet_internal_checkpoint": checkpoint})
    (found,) = [each for each in report.findings if each.finding == "checksum_mismatch"]
    assert found.file == "kubelet_internal_checkpoint"


def test_half_a_character_in_a_checkpoint(tmp_path: Path) -> None:
    entry = {"PodUID": "u\ud800", "ContainerName": "c", "ResourceName": "r", "DeviceIDs": ["d"]}
    checkpoint = {"Data": {"PodDeviceEntries": [entry], "RegisteredDevices": {}}, "Checksum": 1}
    report, records = imported(tmp_path, {"kubelet_internal_checkpoint": checkpoint})
    assert malformed(report) == ["half a character (a lone surrogate) was replaced"]
    assert report.added == len(records)


# --- times --------------------------------------------------------------------------


def test_the_zero_time_is_an_unknown_one(tmp_path: Path) -> None:
    """Real dumps are full of it, so it is no finding."""
    zero = "0001-01-01T00:00:00Z"
    odd = with_fields(pod(), metadata={"creationTimestamp": zero}, status={"startTime": zero})
    report, records = imported(tmp_path, {"pods.json": pods(odd), "kubelet.log": log_text()})
    assert malformed(report) == []
    body = listed(records)["web"]
    assert body.created_ts_ns is None
    assert body.status is not None
    assert body.status["startTime"] is None


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59Z", "2262-01-01T00:00:00Z", "yesterday"])
def test_a_time_out_of_range_is_unknown_and_told(tmp_path: Path, text: str) -> None:
    odd = with_fields(pod(), metadata={"creationTimestamp": text})
    event = {"kind": "Event", "metadata": {"name": "e"}, "lastTimestamp": text, "reason": "R"}
    report, records = imported(
        tmp_path, {"pods.json": pods(odd), "event.json": event, "kubelet.log": log_text()}
    )
    assert len([message for message in malformed(report) if "unknown" in message]) == 2
    assert listed(records)["web"].created_ts_ns is None
    assert max(record.ts_ns for record in records) < parse_ts("2027-01-01T00:00:00Z")


def test_api_time() -> None:
    assert api_time(None) is api_time("") is api_time("0001-01-01T00:00:00Z") is None
    assert api_time("1970-01-01T00:00:01Z") == 10**9
    with pytest.raises(ValueError, match="1678 to 2261"):
        api_time("9999-12-31T23:59:59Z")
    with pytest.raises(ValueError, match="not a time"):
        api_time(5)


@pytest.mark.parametrize("text", [b"1e300", b"1e5000000", b"9" * 30, b"1e400", b"-9e18", b"x"])
def test_a_json_stamp_out_of_range(tmp_path: Path, text: bytes) -> None:
    """No time; its line is not understood, and the lines around it are read."""
    with pytest.raises(ValueError, match=r".+"):
        exact_json_ns(text)
    good = '{"ts":1795230363091.155,"caller":"a/b.go:1","msg":"hello","v":0}\n'
    bad = f'{{"ts":{text.decode()},"caller":"a/b.go:1","msg":"hello you","v":0}}\n'
    report, records = imported(tmp_path, {"kubelet.log": good + bad + good})
    assert report.accounts[0].lines == 3
    assert max(record.ts_ns for record in records) == 1_795_230_363_091_155_000


@pytest.mark.parametrize("year", [2013, 2201, 2500, 9999])
def test_a_year_that_is_none(year: int) -> None:
    """Refused before anything is read."""
    with pytest.raises(BadQuestionError, match="no year"):
        ImportOptions(year=year)


@pytest.mark.parametrize("node", ["x" * 254, "a\x1b[31m", "a\nb", " "])
def test_a_node_name_that_is_none(node: str) -> None:
    """Too long, or nothing a terminal should show."""
    with pytest.raises(BadQuestionError, match="node"):
        ImportOptions(node=node)
    assert ImportOptions(node="x" * 253).node


def test_a_list_of_days_after_the_log_is_told(tmp_path: Path) -> None:
    late = with_fields(pod(), metadata={"creationTimestamp": "2026-12-21T03:00:00Z"})
    report, _ = imported(tmp_path, {"pods.json": pods(late), "kubelet.log": log_text()})
    doubtful = [found.file for found in report.findings if found.finding == "time_doubtful"]
    assert doubtful == ["pods.json"]


# --- plain values -------------------------------------------------------------------


def test_plain_values() -> None:
    """What JSON and 64 bits hold stays; the rest is replaced and told once."""
    flaws: list[str] = []
    given = {"a": [1, 1.5, None, True, "ä"], "b": {"c": 2**64 - 1}}
    assert plain(given, flaws) == given
    assert flaws == []
    odd = {1: "x\udc80", None: 2**64, "d": b"x", "e": float("nan")}
    cleaned = {"1": "x\ufffd", "null": None, "d": None, "e": None}
    assert plain(odd, flaws) == cleaned
    assert len(flaws) == len(set(flaws)) == 5


def test_too_deep() -> None:
    """A bound on nesting instead of the interpreter's."""
    value: object = None
    for _ in range(300):
        value = [value]
    with pytest.raises(ValueError, match="too deep"):
        plain(value, [])


def test_yaml_as_kubernetes_reads_it() -> None:
    """Times stay texts, aliases and merges work."""
    assert load_yaml(b"a: 2026-11-21\nb: &b {c: 1}\nd: {<<: *b, e: *b}\n---\n5\n") == [
        {"a": "2026-11-21", "b": {"c": 1}, "d": {"c": 1, "e": {"c": 1}}},
        5,
    ]


def bomb(levels: int, width: int) -> bytes:
    """YAML in which each level refers to the one before several times."""
    lines = ["x0: &x0 lol"]
    for level in range(1, levels + 1):
        lines.append(f"x{level}: &x{level} [{', '.join([f'*x{level - 1}'] * width)}]")
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (bomb(31, 3), "blow up"),
        (bomb(9, 9), "blow up"),
        (b"a: &a\n  b: *a\n", "leads to itself"),
        (b"a: [", "no valid YAML in line 1"),
        (b"a: " + b"9" * 5000, "cannot be read"),
        (b"[" * 5000, "too deep"),
    ],
    ids=["31x3", "9x9", "loop", "open", "digits", "deep"],
)
def test_hostile_yaml(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_yaml(data)
    path = tmp_path / "config.yaml"
    path.write_bytes(b"kind: KubeletConfiguration\n" + data)
    with pytest.raises(BadInputError, match="nothing that can be imported"):
        import_sources([str(path)], Ledger.create(tmp_path / "ledger"))


# --- what is not understood ---------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        ("I1399 25:99:99.000000 8337 kubelet.go:1] hello x=1", "(damaged head) kubelet.go hello x"),
        ('{"ts":1e300,"caller":"x.go:1","msg":"y 5","v":0}', "(damaged JSON) x.go y"),
        ('{"ts":1795', "(damaged JSON)"),
        ("12345", "(no words)"),
        ("free text 5", "free text"),
    ],
)
def test_shapes_of_damaged_lines(line: str, shape: str) -> None:
    assert shape_of("", line, False) == shape


def test_a_snapshot_with_one_nul_byte(tmp_path: Path) -> None:
    text = "cpu/kubepods/cpu.shares 2\ncpu/kubepods/burst\0able/cpu.shares 9\n"
    report, records = imported(tmp_path, {"cgroupfs.txt": text})
    assert malformed(report) == ["lines with NUL bytes are not read"]
    assert report.accounts[0].not_understood == 1
    assert "cgroups.CgroupUpdated" in {record.kind for record in records}
