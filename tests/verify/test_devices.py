"""Devices and topology of both recordings, and lies about them."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from kubeledger.model.bodies.devicemanager import (
    AllocationFailed,
    DevicesAllocated,
    DevicesReported,
)
from kubeledger.model.bodies.topologymanager import AffinityDecided, Hint
from kubeledger.model.record import Record
from kubeledger.verify import Contradiction, Finding
from kubeledger.verify.rules.devices.rule import DeviceRule
from tests.verify.device_world import device_outcomes
from tests.verify.histories import changed, recorded

KINDS = tuple(kind.kind for kind in DeviceRule.decides)


@cache
def relevant(node: str) -> tuple[Record, ...]:
    """Records of a recording, without those that no part of device verification looks at."""
    skipped = ("prober.", "cgroups.", "ledger.", "lifecycle.ReasonReported")
    return tuple(r for r in recorded(node) if not r.kind.startswith(skipped))


def found(records: list[Record]) -> tuple[dict[int, Finding], list[Contradiction]]:
    """Findings of device decisions by record, and contradictions."""
    outcomes = device_outcomes(records)
    contradictions = [o for o in outcomes if isinstance(o, Contradiction)]
    findings = [o for o in outcomes if not isinstance(o, Contradiction) and o.kind in KINDS]
    return {finding.seq: finding for finding in findings}, contradictions


def impossible(records: list[Record]) -> set[int]:
    """Records of impossible decisions."""
    return {seq for seq, finding in found(records)[0].items() if finding.verdict == "impossible"}


def of_kind(node: str, kind: type[Any]) -> list[Record]:
    """Records of one kind."""
    return [record for record in relevant(node) if isinstance(record.body, kind)]


@pytest.mark.parametrize(
    ("node", "counts"),
    [
        (
            "node-a",
            {"DevicesAllocated": 6, "AllocationFailed": 1, "DevicesReleased": 1, "Affinity": 30},
        ),
        ("node-b", {"DevicesAllocated": 4, "AllocationFailed": 1, "Affinity": 17}),
    ],
)
def test_all_of_a_recording_is_verified(node: str, counts: dict[str, int]) -> None:
    """Nothing is impossible, nothing left open, and no sources disagree."""
    findings, contradictions = found(list(relevant(node)))
    assert not contradictions
    assert {finding.verdict for finding in findings.values()} <= {"match", "admissible"}
    kinds = Counter(f.kind.partition(".")[2].removesuffix("Decided") for f in findings.values())
    assert kinds == counts
    assert all(finding.why and finding.rule and finding.inputs for finding in findings.values())
    for finding in findings.values():
        if finding.verdict == "match":
            assert finding.expected == finding.recorded


def test_sentences() -> None:
    """As a postmortem takes them."""
    (refused,) = of_kind("node-a", AllocationFailed)
    granted = next(
        r
        for r in of_kind("node-a", DevicesAllocated)
        if r.body.pod == "gpu-d"  # type: ignore[attr-defined] # of that kind
    )
    findings, _ = found(list(relevant("node-a")))
    assert findings[refused.seq].why == (
        "container train needs 3 example.com/gpu, more than the 1 free healthy device: gpu-3; "
        "gpu-0 held by default/gpu-a/warmup and default/gpu-a/train; gpu-1 held by "
        "default/gpu-b/train; gpu-2 held by default/gpu-a/train"
    )
    assert findings[granted.seq].why == (
        "container train asks for 1 example.com/gpu: gpu-3 was taken out of the 1 free healthy "
        "device gpu-3; gpu-1 held by default/gpu-b/train; gpu-0, gpu-2 not healthy; the "
        "container is aligned to NUMA node 0, where none are"
    )


def of_pod(node: str, kind: type[Any], pod: str, container: str) -> Record:
    """The first record of one kind about a container."""
    return next(
        r
        for r in of_kind(node, kind)
        if (r.body.pod, r.body.container) == (pod, container)  # type: ignore[attr-defined] # of that kind
    )


def test_a_lie_about_a_merge_stays_alone() -> None:
    """Grants may go by the recorded hint or by the one that had to be: none is in doubt."""
    for node, pod in (("node-a", "gpu-a"), ("node-b", "gpu-a-node-b")):
        merged = of_pod(node, AffinityDecided, pod, "train")
        findings, _ = found(
            changed(relevant(node), merged.seq, hint=Hint(numa_nodes=(1,), preferred=True))
        )
        odd = {s for s, f in findings.items() if f.verdict in ("impossible", "unverifiable")}
        assert odd == {merged.seq}


def test_a_lie_about_healthy_devices() -> None:
    """Log and checkpoint differ: nothing is believed, and nothing called impossible."""
    report = next(
        r
        for r in of_kind("node-b", DevicesReported)
        if isinstance(r.body, DevicesReported) and r.body.total == 4
    )
    findings, contradictions = found(changed(relevant("node-b"), report.seq, healthy=3))
    assert all(finding.verdict != "impossible" for finding in findings.values())
    assert report.seq in {side.seq for side in contradictions[0].sides}
    missing = {name for finding in findings.values() for name in finding.missing}
    assert missing == {"the healthy devices of example.com/gpu at that time"}
