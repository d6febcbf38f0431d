"""Of several lines of a record, the one that says what happened."""

from __future__ import annotations

import msgspec

from kubeledger.analyze.histories.history import history_of_reader
from kubeledger.analyze.why import explain, parse_target
from kubeledger.cli.why import short_text
from kubeledger.model.bodies.lifecycle import PodEvicted
from kubeledger.model.record import Evidence
from tests.verify.histories import reader, scene

PREFIX = "May 28 16:05:54 node-t kubelet[7]: I0528 16:05:54.802914       7 manager.go:627] "
LINES = (
    '"Eviction manager: pods ranked for eviction" pods=["a/b","a/c"]',
    '"Eviction manager: pod is evicted successfully" pod="a/b"',
)


def test_an_eviction_is_proved_by_its_outcome() -> None:
    """Not by the ranking, which other pods stand in too; what journald put before is left out."""
    evicted = PodEvicted(
        namespace="a", pod="b", pod_uid=None, resource=None, message=None, evicted=True
    )
    evidence = tuple(
        Evidence(file="kubelet.log", line=number, offset=0, text=PREFIX + line)
        for number, line in enumerate(LINES, start=1)
    )
    records = [msgspec.structs.replace(scene((0.0, evicted))[0], evidence=evidence)]
    answer = explain(
        history_of_reader("node-t", "node-t", reader(records)), parse_target("pod/a/b")
    )
    assert answer is not None
    (proof,) = answer.evidence
    assert proof.line == 2
    assert f"[1] kubelet.log:2  {LINES[1]}" in short_text(answer, 80, 23)
