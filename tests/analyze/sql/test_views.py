"""Every view against its contract, and against rows read through beside the fixture."""

import csv
import io
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

import kubeledger
from kubeledger.analyze.sql.api import Queryable, connect
from kubeledger.analyze.sql.views import load_views
from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.bodies.eviction import PreemptionFailed, ProcessKilled
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.bodies.node import KubeletExited, KubeletStarted
from kubeledger.model.bodies.prober import ProbeTicksFolded
from kubeledger.model.units import NS_PER_S
from kubeledger.model.wire.catalogue import BODY_TYPES
from kubeledger.verify import Finding
from tests.analyze.sql import expected_rows
from tests.analyze.sql.expected_rows import EXPECTED
from tests.analyze.sql.fixture_ledger import START_NS, Story, write_ledger
from tests.recordings import import_recording

VIEWS = load_views()

CONTRACT = {
    "events": "ts_ns BIGINT, role, kind, v INTEGER, cause_seq BIGINT, namespace, pod, pod_uid,"
    " container, source_file, source_line BIGINT, body JSON",
    "admissions": "namespace, pod, pod_uid, admitted BOOLEAN, reason, message",
    "preemptions": "victim_namespace, victim_pod, victim_uid, preemptor_namespace,"
    " preemptor_pod, preemptor_uid, insufficient, evicted BOOLEAN",
    "device_allocations": "namespace, pod, pod_uid, container, resource, device_ids VARCHAR[],"
    " numa_nodes INTEGER[], released_ts TIMESTAMP",
    "probe_ticks": "namespace, pod, pod_uid, container, probe_type, result, output",
    "probe_transitions": "namespace, pod, pod_uid, container, container_id, probe_type,"
    " from_result, to_result",
    "container_restarts": "namespace, pod, pod_uid, container, reason, cause_seq BIGINT",
    "image_gc_runs": "usage_percent BIGINT, high_threshold_percent BIGINT,"
    " low_threshold_percent BIGINT, bytes_to_free BIGINT, bytes_freed BIGINT,"
    " images_removed BIGINT, outcome, error",
    "image_gc_deletions": "run_seq BIGINT, image_id, size_bytes BIGINT",
    "cgroup_updates": "cgroup, qos_class, pod_uid, cpu_shares BIGINT, cpu_quota_us BIGINT,"
    " cpu_period_us BIGINT, memory_limit_bytes BIGINT",
    "kubernetes_events": "object_kind, namespace, name, uid, container, type, reason, message,"
    " count BIGINT, api_count BIGINT",
    "verdicts": "decision_seq BIGINT, kind, subject, verdict, why, missing VARCHAR[]",
    "evictions": "namespace, pod, pod_uid, signal, threshold BIGINT, observed BIGINT, kind,"
    " rank INTEGER[], resource, grace_period_s INTEGER, evicted BOOLEAN, message",
    "evidence": "source_file, source_line BIGINT, byte_offset BIGINT, text",
    "pod_stages": "namespace, pod, pod_uid, container, stage, reason, message, attempts BIGINT,"
    " last_ts TIMESTAMP, passed_ts TIMESTAMP",
    "node_conditions": "condition, status, reason, message, until_ts TIMESTAMP",
    "image_pulls": "namespace, pod, pod_uid, container, image, decision, outcome, reason, error,"
    " ended_ts TIMESTAMP, whole_ms BIGINT, pull_ms BIGINT, size_bytes BIGINT, ended_seq BIGINT",
    "resizes": "namespace, pod, pod_uid, outcome, reason, message, resources JSON",
}
"""View -> columns after node, seq and ts; VARCHAR where no type stands."""

_UNFILLED = {
    "cgroup_updates": {"container_id", "sandbox"},
    "device_reports": {"device_ids"},
    "image_fs": {"used_bytes"},
    "images_detected": {"pinned"},
    "kubelet_starts": {"exited_ts", "exit_reason", "exit_message"},
    "kubernetes_events": {"container", "api_count"},
    "pods": {"created_ts"},
    "preemption_failures": {"unmet"},
    "preemptions": {"cause_seq"},
    "reasons": {"container", "api_count"},
}
"""View -> columns that the fixture ledgers leave empty; a new column is not to be one of them."""


@pytest.mark.parametrize("name", CONTRACT)
def test_public_columns_are_there_in_order(database: Queryable, name: str) -> None:
    """Names, types and order that scripts rely on; more columns may follow."""
    wanted = [("node", "VARCHAR"), ("seq", "BIGINT"), ("ts", "TIMESTAMP")]
    for column in CONTRACT[name].split(", "):
        column_name, _, type_ = column.partition(" ")
        wanted.append((column_name, type_ or "VARCHAR"))
    described = [row[:2] for row in database.sql(f"DESCRIBE {name}")]
    assert described[: len(wanted)] == wanted


def test_headers_fit_the_views(database: Queryable) -> None:
    """Each column is commented, in order and with its type, in the file and in DuckDB."""
    for name, view in VIEWS.items():
        described = [row[:2] for row in database.sql(f"DESCRIBE {name}")]
        assert described == [(column.name, column.type) for column in view.columns], name
        assert [column.name for column in view.columns[:3]] == ["node", "seq", "ts"]
        assert view.doc, name
        comments = database.sql(
            "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = $name"
            " ORDER BY column_index",
            {"name": name},
        )
        assert comments.fetchall() == [(column.name, column.comment) for column in view.columns]
        assert all(column.comment for column in view.columns), name


def test_kinds_are_those_that_the_sql_names() -> None:
    """A kind that a view reads but does not list would be missing from its rows."""
    for view in VIEWS.values():
        named = {kind for kind in BODY_TYPES if f"'{kind}'" in view.sql}
        for other in VIEWS.values():
            if other.sql and f"FROM {other.name}" in view.sql:
                named |= other.kinds or set()
        if view.kinds is not None:
            assert view.kinds == named, view.name
            assert view.kinds <= set(BODY_TYPES), view.name


@pytest.mark.parametrize("name", expected_rows.VIEWS)
def test_rows(database: Queryable, managers: Queryable, name: str) -> None:
    """All rows of the fixture ledgers are those in ``expected``: ``just expected`` writes them."""
    got = expected_rows.rows_of_view(database, managers, name)
    assert got == (EXPECTED / f"view_{name}.csv").read_text("utf-8")
    rows = list(csv.DictReader(io.StringIO(got)))
    assert rows, "the fixture holds no row for this view"
    unfilled = {column for column in rows[0] if not any(row[column] for row in rows)}
    assert unfilled == _UNFILLED.get(name, set()), "fill new columns in the fixture"


def test_folded_ticks(tmp_path: Path) -> None:
    """One row for all ticks of a record, with the times of the first and the last."""
    story = Story("node-a")
    body = ProbeTicksFolded(
        namespace="default", pod="web", pod_uid="u-web", container="app", container_id="c1",
        probe_type="liveness", result="success", output=None, handler="http", count=61,
        first_ts_ns=START_NS, last_ts_ns=START_NS + 600 * NS_PER_S, period_ns=10 * NS_PER_S,
    )  # fmt: skip
    story.add(body)
    with connect(write_ledger(tmp_path, story.records)) as opened:
        query = "SELECT count, last_ts - first_ts, result FROM probe_tick_runs"
        assert opened.sql(query).fetchall() == [(61, timedelta(minutes=10), "success")]
        assert opened.sql("SELECT count(*) FROM probe_ticks").fetchall() == [(0,)]


def test_how_a_kubelet_ended(tmp_path: Path) -> None:
    """The end of a process stands in its row, or in one of its own where no start is recorded."""
    story = Story("n")
    for pid, ends in ((7, ()), (8, ("first", "second")), (9, ())):
        story.add(KubeletStarted(pid=pid, kubelet_version=None, version_source=None))
        for message in ends:
            story.add(KubeletExited(pid=pid, reason="error", message=message))
    for alone in (5, 8, None):
        story.add(KubeletExited(pid=alone, reason="fatal", message="alone"))
    with connect(write_ledger(tmp_path, story.records)) as opened:
        query = "SELECT pid, exit_reason, exit_message, exited_ts = ts, from_start, restart"
        assert opened.sql(f"{query} FROM kubelet_starts").fetchall() == [
            (7, None, None, None, True, False),
            (8, "error", "first", False, True, False),
            (9, None, None, None, True, False),
            (5, "fatal", "alone", True, False, True),
            (None, "fatal", "alone", True, False, False),
        ]


def test_the_limit_that_ran_out_is_named_by_the_next_best_source(tmp_path: Path) -> None:
    """The kernel, else the cgroup's files, the last before or the first after, else the spec."""
    containers = [{"name": "c", "resources": {"limits": {"memory": "80Mi"}}}]
    kill = ProcessKilled(
        namespace="a", pod="p", pod_uid="u", container="c", container_id="1", cgroup="kubepods/pu",
        reason="container_limit",
    )  # fmt: skip
    files = CgroupUpdated(
        cgroup="kubepods/pu", level="pod", qos_class="Burstable", pod_uid="u", created=True,
        changed=(), memory_limit_bytes=7 << 20,
    )  # fmt: skip
    unlimited = msgspec.structs.replace(
        files, cgroup="none", memory_limit_bytes=9223372036854771712
    )
    listed = PodListed(
        namespace="a", pod="p", pod_uid="u", listed_by="kubelet", annotations={},
        spec={"containers": containers}, status=None,
    )  # fmt: skip
    story = Story("n")
    for body in (
        listed,
        kill,
        files,
        unlimited,
        msgspec.structs.replace(kill, cgroup="none"),
        msgspec.structs.replace(kill, cgroup="none", reason="pod_limit"),
        msgspec.structs.replace(kill, limit_bytes=3 << 20),
    ):
        story.add(body)
    with connect(write_ledger(tmp_path, story.records)) as opened:
        query = "SELECT limit_bytes >> 20, limit_source FROM oom_kills"
        assert opened.sql(query).fetchall() == [
            (7, "cgroup_files"),
            (80, "spec"),
            (None, None),
            (3, "kernel"),
        ]


def test_what_no_victim_could_free(tmp_path: Path) -> None:
    error = (
        "no set of running pods found to reclaim resources: [(res: cpu, q: 5), (res: a/b, q: 1), ]"
    )
    story = Story("n")
    story.add(
        PreemptionFailed(
            preemptor_namespace="a", preemptor_pod="p", preemptor_uid="u", insufficient=(),
            error=error,
        )
    )  # fmt: skip
    with connect(write_ledger(tmp_path, story.records)) as opened:
        query = "SELECT insufficient, unmet FROM preemption_failures"
        assert opened.sql(query).fetchall() == [(None, "cpu=5, a/b=1")]


def test_verdicts_are_those_of_verify(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    import_recording("node-b", path)
    with connect(path) as database:
        rows = database.sql(
            "SELECT node, decision_seq, kind, subject, verdict, why, missing FROM verdicts"
            " ORDER BY decision_seq"
        ).fetchall()
    outcomes = kubeledger.open(path).verify()
    findings = [outcome for outcome in outcomes if isinstance(outcome, Finding)]
    assert sorted(rows) == sorted(
        ("node-b", f.seq, f.kind, f.subject, f.verdict, f.why, list(f.missing)) for f in findings
    )
