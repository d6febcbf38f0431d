"""Both recorded nodes, end to end: every view gives the rows that the raw files give."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from kubeledger.analyze.sql.api import Queryable, connect
from kubeledger.ingest.api import import_sources
from kubeledger.ledger.audit import audit
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.record import Record
from kubeledger.model.units import parse_ts
from kubeledger.replay import state_at
from kubeledger.replay.node.state import canonical_json
from tests.recordings import RECORDINGS, extract, import_anew, import_recording

NODES = ("node-a", "node-b")
TRUTH = Path(__file__).parent / "data" / "truth"

COLUMNS: dict[str, tuple[str, ...]] = {
    # An admission that no line names may be dated by any line that shows it: no ts here.
    "admissions": ("namespace", "pod", "pod_uid", "admitted", "reason", "message"),
    "preemptions": ("ts", "victim_namespace", "victim_pod", "victim_uid", "preemptor_namespace",
                    "preemptor_pod", "preemptor_uid", "evicted"),
    "device_allocations": ("ts", "namespace", "pod", "pod_uid", "container", "resource",
                           "device_ids", "numa_nodes", "released_ts"),
    "probe_ticks": ("ts", "namespace", "pod", "pod_uid", "container", "probe_type", "result"),
    "probe_transitions": ("namespace", "pod", "pod_uid", "container", "container_id", "probe_type",
                          "from_result", "to_result"),
    "container_restarts": ("namespace", "pod", "pod_uid", "container", "reason"),
    "image_gc_runs": ("usage_percent", "high_threshold_percent", "low_threshold_percent",
                      "bytes_to_free", "bytes_freed", "images_removed", "outcome", "error"),
    "image_gc_deletions": ("ts", "image_id", "size_bytes"),
    "cgroup_updates": ("cgroup", "qos_class", "pod_uid", "cpu_shares", "cpu_quota_us",
                       "cpu_period_us", "memory_limit_bytes"),
}  # fmt: skip

Imported = tuple[Ledger, dict[str, list[dict[str, Any]]]]


@pytest.fixture(scope="module", params=NODES)
def imported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Imported:
    """A node's ledger, and the true rows of its views."""
    ledger, _ = import_recording(request.param, tmp_path_factory.mktemp("ledger") / "ledger")
    packed = (TRUTH / f"{request.param}.json.zst").read_bytes()
    return ledger, json.loads(zstandard.ZstdDecompressor().decompress(packed))


@pytest.fixture(scope="module")
def queryable(imported: Imported) -> Iterator[Queryable]:
    with connect(imported[0].path) as opened:
        yield opened


def comparable(value: object) -> object:
    """A value in a form in which both sides write it: no empty text, times to microseconds."""
    if value == "" or value is None:
        return None
    if isinstance(value, list):
        return tuple(value)
    if hasattr(value, "isoformat"):
        return value.isoformat(timespec="microseconds")[:26]
    return value


def rows(dicts: list[dict[str, Any]], columns: tuple[str, ...]) -> Counter[tuple[object, ...]]:
    return Counter(
        tuple(
            str(value).rstrip("Z")[:26].ljust(26, "0") if name.endswith("ts") and value else value
            for name in columns
            for value in (comparable(row.get(name)),)
        )
        for row in dicts
    )


@pytest.mark.parametrize("view", COLUMNS)
def test_view_gives_the_true_rows(view: str, imported: Imported, queryable: Queryable) -> None:
    _, truth = imported
    columns = COLUMNS[view]
    ours = rows(queryable.sql(f"SELECT * FROM {view}").dicts(), columns)
    true = rows(truth[view], columns)
    assert ours - true == Counter()
    assert true - ours == Counter()


def chain(ledger: Ledger, record: Record) -> list[str]:
    """Kinds from a record to its first cause."""
    kinds = [record.kind]
    while record.cause is not None:
        cause = ledger.record(record.node, record.cause)
        assert cause is not None
        assert cause.seq < record.seq
        record = cause
        kinds.append(record.kind)
    return kinds


def test_a_liveness_restart_leads_back_to_its_tick(imported: Imported) -> None:
    """Tick, transition, kill, restart: each is the cause of the next."""
    ledger, _ = imported
    restarts = [
        record
        for record in ledger.records()
        if record.kind == "lifecycle.ContainerRestarted"
        and getattr(record.body, "reason", None) == "liveness_probe"
    ]
    assert restarts
    for restart in restarts:
        assert chain(ledger, restart) == [
            "lifecycle.ContainerRestarted",
            "lifecycle.ContainerKilled",
            "prober.ProbeTransitioned",
            "prober.ProbeExecuted",
        ]


def test_records_stand_in_the_order_of_time(imported: Imported) -> None:
    """So that the state at an instant holds all that had happened by then.

    0.1 ms of slack: klog takes the time of a line before it waits to write it, so lines of
    two goroutines may stand in the log in the wrong order.
    """
    newest = 0
    for record in imported[0].records():
        assert record.ts_ns >= newest - 100_000
        newest = max(newest, record.ts_ns)


def test_every_line_is_accounted_for(imported: Imported) -> None:
    """Understood, known noise or not understood, and nothing of these logs is the last."""
    with connect(imported[0].path) as opened:
        accounts = opened.sql("SELECT * FROM line_accounts").dicts()
    assert accounts
    for account in accounts:
        parts = account["understood"] + account["noise"] + account["not_understood"]
        assert parts == account["lines"], account
        assert account["not_understood"] <= 1, account


def test_evidence_is_in_the_raw_file(imported: Imported, tmp_path: Path) -> None:
    """File, line, offset and text of each piece of evidence agree with the source."""
    ledger, _ = imported
    node = ledger.nodes()[0]
    directory = extract(node, tmp_path)
    files: dict[str, tuple[bytes, list[bytes]]] = {}
    checked = 0
    for record in ledger.records():
        for piece in record.evidence:
            if piece.line is None or piece.text is None or piece.offset is None:
                continue
            if piece.file not in files:
                name = piece.file.split(f"{directory.name}/")[-1]
                data = (directory / name).read_bytes()
                files[piece.file] = (data, data.split(b"\n"))
            data, lines = files[piece.file]
            line = lines[piece.line - 1]
            assert line.decode("utf-8", "replace")[:4096].startswith(piece.text[:200])
            assert data[piece.offset : piece.offset + len(line)] == line
            checked += 1
    assert checked > 1000


def test_a_second_import_adds_nothing(imported: Imported) -> None:
    """Whatever form the same files come in."""
    ledger, _ = imported
    node = ledger.nodes()[0]
    before = ledger.info(node).last_seq
    report = import_sources([str(RECORDINGS / f"{node}.tar.zst")], ledger)
    assert report.added == 0
    assert ledger.info(node).last_seq == before


def test_the_ledger_is_sound_and_the_same_every_time(imported: Imported, tmp_path: Path) -> None:
    """The same files give the same bytes: one digest."""
    report = audit(imported[0])
    assert report.findings == ()
    again, _ = import_anew(report.nodes[0].node, tmp_path / "again")
    assert audit(again).nodes[0].head == report.nodes[0].head


def test_state_at_the_incident(imported: Imported) -> None:
    """While the critical pod preempts, the victim is killed and its devices are still held."""
    ledger, truth = imported
    node = ledger.nodes()[0]
    preemption = truth["preemptions"][0]
    state = state_at(ledger, node, ts_ns=parse_ts(preemption["ts"]) + 1)
    assert preemption["victim_uid"] in state.preemption.victims
    assert json.loads(canonical_json(state))
