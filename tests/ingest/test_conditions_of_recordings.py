"""Changes of Ready in the recorded nodes' logs: those that regular expressions find."""

from pathlib import Path

import pytest

from kubeledger.model.bodies.node import NodeConditionChanged
from tests.ingest.independent_conditions import Change, ready_changes
from tests.recordings import extract
from tests.verify.histories import recorded


@pytest.mark.parametrize("recording", ["node-a", "node-b", "node-e-evictions"])
def test_every_change_is_recorded_once(recording: str, tmp_path: Path) -> None:
    log = extract(recording, tmp_path) / "kubelet.log"
    changes = ready_changes(log.read_text(encoding="utf-8", errors="replace").splitlines())
    told = [
        Change(_stamp(str(record.evidence[0].text)), record.body.status == "True")
        for record in recorded(recording)
        if isinstance(record.body, NodeConditionChanged) and record.body.condition == "Ready"
    ]
    assert told == changes
    assert bool(changes) == (recording == "node-a"), "the others' logs begin and end ready"


def _stamp(line: str) -> str:
    """Day and time of klog's head."""
    day, time, *_ = line.split()
    return f"{day[1:]} {time}"
