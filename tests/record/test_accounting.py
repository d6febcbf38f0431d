"""What sources gave and what was appended, as numbers."""

from pathlib import Path

import msgspec

from kubeledger.ledger.ledger import Ledger
from kubeledger.record.accounting import Accounting
from kubeledger.record.metrics import SEALED, Metrics
from kubeledger.record.observations import Document, Gap, Lines, Mark, Observation
from kubeledger.record.reading import Limits
from kubeledger.record.recorder import Recorder
from tests.ingest.node_files import write_node
from tests.ledger.making import segment_paths
from tests.record.feeding import Feed, NodeFiles
from tests.record.test_metrics import samples

S = 1_000_000_000
UP = "kubeledger_source_up"
GAPS = "kubeledger_gaps_total"


def test_an_outage_is_one_gap_and_down_until_its_end() -> None:
    metrics = Metrics()
    accounting = Accounting(metrics)
    reason = "status 403"
    accounting.polled("endpoints", [Document("a", "pod-list", b"12345", S)], S)
    accounting.polled("endpoints", [Gap("kubelet /pods", reason, None, None)], 2 * S)
    for now_ns in (3 * S, 4 * S):
        accounting.polled("endpoints", [], now_ns)
        assert metrics.sources_down() == ["kubelet /pods"]
    read = samples(metrics)
    assert read[UP, "endpoints"] == 1
    assert read["kubeledger_read_bytes_total", "endpoints"] == 5
    assert read["kubeledger_source_last_success_timestamp_seconds", "endpoints"] == 4
    accounting.polled("endpoints", [Gap("kubelet /pods", reason, 2 * S, 5 * S)], 5 * S)
    assert metrics.sources_down() == []
    assert samples(metrics)[GAPS, "kubelet /pods", "status N"] == 1
    assert (UP, "kubelet /pods") not in samples(metrics)


def test_a_log_lags_as_long_as_a_part_of_it_cannot_be_read() -> None:
    """Whatever else comes of it; what was suppressed is a gap and no outage."""
    metrics = Metrics()
    accounting = Accounting(metrics)
    lost = [Gap("kubelet.log", f"kubelet.log.{n} cannot be read", S, None) for n in (1, 2)]
    lines = Lines("kubelet.log", b"x\n", "1")

    def step(given: list[Observation | Mark], seconds: int) -> None:
        accounting.polled("kubelet.log", given, seconds * S)
        accounting.stepped(seconds * S, given=bool(given), more=False)

    step([Mark("1")], 1)
    assert metrics.is_ready
    step(list(lost), 2)
    step([lines], 9)
    assert metrics.sources_down() == ["kubelet.log"]
    assert samples(metrics)["kubeledger_lag_seconds",] == 8
    step([msgspec.structs.replace(lost[0], until_ns=9 * S)], 10)
    assert metrics.sources_down() == ["kubelet.log"]
    step([msgspec.structs.replace(lost[1], until_ns=9 * S)], 11)
    assert metrics.sources_down() == []
    assert samples(metrics)["kubeledger_lag_seconds",] == 0
    step([Gap("kubelet.log", "3 were suppressed", S, 2 * S)], 12)
    assert metrics.sources_down() == []
    assert samples(metrics)[GAPS, "kubelet.log", "N were suppressed"] == 1


def test_what_lasts_over_a_restart_is_down() -> None:
    """It is no new gap; its end is its end."""
    metrics = Metrics()
    accounting = Accounting(metrics)
    gap = Gap("kubelet.log", "kubelet.log.1 cannot be read", S, None)
    accounting.polled("kubelet.log", [Mark("1", (gap,))], 2 * S)
    assert metrics.sources_down() == ["kubelet.log"]
    accounting.polled("kubelet.log", [msgspec.structs.replace(gap, until_ns=3 * S)], 3 * S)
    assert metrics.sources_down() == []
    assert not any(key[0] == GAPS for key in samples(metrics))


def test_the_numbers_of_a_recorder_are_those_of_its_ledger(tmp_path: Path) -> None:
    """Records by kind, bytes of lines, the newest time; segments are sealed by their age."""
    files, metrics = NodeFiles(write_node(tmp_path / "node-x")), Metrics()
    ledger = Ledger.create(tmp_path / "ledger")
    feeds: list[Feed] = []

    def make(cursor: str | None) -> Feed:
        feeds.append(Feed(files, [len(files.lines) // 2], cursor))
        return feeds[-1]

    with ledger.writer() as writer:
        writer.on_sealed = lambda: metrics.add(SEALED)
        limits = Limits(segment_age_max_ns=1)
        begin_ns = files.lines[0].ts_ns
        recorder = Recorder(ledger, writer, "node-x", {"feed": make}, begin_ns, limits, metrics)
        while not feeds[0].is_done:
            recorder.step(feeds[0].now_ns + S)
        recorder.end_chapter(feeds[0].now_ns)
        recorder.close()
        lines_bytes = writer.appended_bytes
    read = samples(metrics)
    assert sum(value for key, value in read.items() if key[0] == "kubeledger_records_total") == (
        ledger.info("node-x").last_seq
    )
    assert read["kubeledger_written_bytes_total", "ledger"] == lines_bytes
    assert read["kubeledger_written_bytes_total", "capture"] > 0
    assert read["kubeledger_lag_seconds",] == 0
    sealed = [path for path in segment_paths(ledger, "node-x") if path.suffix == ".zst"]
    assert read["kubeledger_segments_sealed_total",] == len(sealed) >= 1
