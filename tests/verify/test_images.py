"""Image GC of the recordings, and of copies in which one thing is another."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.images import (
    GarbageCollected,
    GarbageCollectionStarted,
    ImageDeleted,
)
from kubeledger.model.bodies.node import SettingsObserved
from kubeledger.model.record import Record
from kubeledger.verify import Finding, Variant
from tests.verify.histories import changed, findings, recorded
from tests.verify.image_scenes import alone

__all__ = ["alone"]

DECISIONS = (GarbageCollectionStarted, ImageDeleted, GarbageCollected)
KINDS = {kind.kind for kind in DECISIONS}


def ours(
    records: list[Record] | tuple[Record, ...], variant: Variant | None = None
) -> list[Finding]:
    """Findings about image GC."""
    found = findings(records) if variant is None else findings(records, variant)
    return [finding for finding in found if finding.kind in KINDS]


def impossible(records: list[Record]) -> list[tuple[int, str, bool]]:
    """Record, kind and whether it was recorded, of each impossible decision about images."""
    return [
        (f.seq, f.kind.split(".")[1], f.recorded is not None)
        for f in ours(records)
        if f.verdict == "impossible"
    ]


def nth(node: str, kind: type, index: int) -> Record:
    """A record of a recording by its kind and place."""
    return [record for record in recorded(node) if isinstance(record.body, kind)][index]


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("node-a", {"GarbageCollectionStarted": 2, "ImageDeleted": 8, "GarbageCollected": 4}),
        ("node-b", {"GarbageCollectionStarted": 2, "ImageDeleted": 3, "GarbageCollected": 2}),
    ],
)
def test_all_of_the_recordings_is_verified(node: str, expected: dict[str, int]) -> None:
    """Each decision is what the kubelet had to do, or one of the orders it leaves open."""
    found = ours(recorded(node))
    assert Counter(f.kind.split(".")[1] for f in found) == expected
    assert {f.verdict for f in found} <= {"match", "admissible"}
    assert all(f.why and f.rule and f.inputs for f in found)
    assert all(f.expected == f.recorded for f in found)


def test_what_was_kept_is_said() -> None:
    """The end of a collection tells which images stayed, and why."""
    end = nth("node-b", GarbageCollected, 1)
    (finding,) = [f for f in ours(recorded("node-b")) if f.seq == end.seq]
    assert "image 68d8e9110ca4 is in use" in finding.why
    assert "image 5e3c775663b8 was detected less than 1s before (minimum age 10s)" in finding.why


def test_other_thresholds_deny_the_starts() -> None:
    """Settings that the starts do not agree with."""
    record = nth("node-b", SettingsObserved, 0)
    assert isinstance(record.body, SettingsObserved)
    name = "imageGCHighThresholdPercent"
    setting = msgspec.structs.replace(record.body.settings[name], value="7")
    lied = changed(recorded("node-b"), record.seq, settings={**record.body.settings, name: setting})
    starts = [nth("node-b", GarbageCollectionStarted, i).seq for i in (0, 1)]
    assert [seq for seq, _, _ in impossible(lied)] == starts
    assert all(record.seq in f.inputs for f in ours(lied) if f.seq in starts)


@pytest.mark.parametrize(
    ("overrides", "version", "kinds"),
    [
        ({"imageGCHighThresholdPercent": 80}, None, {"GarbageCollectionStarted": 2}),
        ({"imageGCHighThresholdPercent": 100}, None, {"GarbageCollectionStarted": 2}),
        ({"imageMinimumGCAge": "1h"}, None, {"ImageDeleted": 3, "GarbageCollected": 1}),
        ({}, "1.31.0", {"GarbageCollected": 2}),
    ],
)
def test_other_settings_decide_otherwise(
    overrides: dict[str, Any], version: str | None, kinds: dict[str, int]
) -> None:
    """Under a variant the decisions are those of its settings."""
    variant = Variant(name="other", settings=overrides, kubelet_version=version)
    found = Counter(
        f.kind.split(".")[1]
        for f in ours(recorded("node-b"), variant)
        if f.verdict == "impossible" and f.recorded is not None
    )
    assert kinds.items() <= found.items()


def test_a_finding_about_an_end_is_placed_at_its_line() -> None:
    """Not at the line of the start, which its record holds as well."""
    end = next(r for r in recorded("node-a") if getattr(r.body, "bytes_freed", None))
    start = nth("node-a", GarbageCollectionStarted, 0)
    iterated = msgspec.structs.replace(end, evidence=(*start.evidence, *end.evidence))
    body = msgspec.structs.replace(end.body, bytes_freed=end.body.bytes_freed + 1)  # type: ignore[attr-defined] # an end
    records = [
        msgspec.structs.replace(iterated, body=body) if r.seq == end.seq else r
        for r in recorded("node-a")
    ]
    found = next(f for f in ours(records) if f.seq == end.seq)
    assert found.verdict == "impossible"
    assert found.line is not None
    assert found.line > (start.evidence[0].line or 0)
    assert end.evidence[0].line == found.line
