"""Metrics that count more decisions than the files show."""

from pathlib import Path

import pytest

from kubeledger.ingest.api import import_sources
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.ledger import FindingReported
from tests.ingest.node_files import log_text, snapshot_time
from tests.ingest.planning.test_bundle import write


def findings(tmp_path: Path, counted: int, *, log: str, at: str = snapshot_time(15)) -> list[str]:
    """What an import says of a log with a deletion a second, and of a reading of the metrics."""
    text = (
        "# TYPE kubelet_image_garbage_collected_total counter\n"
        f'kubelet_image_garbage_collected_total{{reason="age"}} {counted - 1}\n'
        'kubelet_image_garbage_collected_total{reason="space"} 1\n'
        "kubelet_preemptions 0\n"
    )
    write(tmp_path / "node-x" / "kubelet.log", log)
    write(tmp_path / "node-x" / at / "metrics.txt", text)
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(tmp_path / "node-x")], ledger)
    bodies = [record.body for record in ledger.records("node-x")]
    found = [body for body in bodies if isinstance(body, FindingReported)]
    return [body.message for body in found if body.finding == "counted_more"]


def test_more_is_a_finding(tmp_path: Path) -> None:
    (message,) = findings(tmp_path, 30, log=log_text())
    assert message == (
        "kubelet_image_garbage_collected_total counts 30 removals of images since the kubelet "
        "started, and the files show 19"
    )


WITHOUT = {
    "as many": (14, log_text(), snapshot_time(15)),
    "a moment later": (19, log_text(), snapshot_time(15)),
    "nothing tells the reading's time": (30, log_text(), "."),
    "the log ends before": (30, log_text(seconds=5), snapshot_time(40)),
    "the log begins later": (30, log_text().split("\n", 3)[3], snapshot_time(15)),
    "after a restart": (5, log_text() + log_text(pid=9, first=30, seconds=20), snapshot_time(45)),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_what_is_none(tmp_path: Path, name: str) -> None:
    """Where the log is not whole until then, or the counter began again, nothing is said."""
    counted, log, at = WITHOUT[name]
    assert findings(tmp_path, counted, log=log, at=at) == []
