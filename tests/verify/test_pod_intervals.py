"""Probes, kills and restarts of the recordings, and of copies in which one thing is a lie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.lifecycle import (
    ContainerKilled,
    ContainerRestarted,
    PodListed,
    RestartBackedOff,
)
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeTransitioned
from kubeledger.model.record import Record
from kubeledger.verify import Contradiction, Finding, Variant
from tests.verify.container_scenes import alone
from tests.verify.histories import changed, outcomes, recorded

__all__ = ["alone"]

NODES = ("node-a", "node-b")
KINDS: tuple[type[Any], ...] = (
    ProbeTransitioned, ContainerKilled, ContainerRestarted, RestartBackedOff,
)  # fmt: skip
NAMES = {kind.kind for kind in KINDS}


def ours(records: Sequence[Record], variant: Variant | None = None) -> list[Finding]:
    """Findings about probes, kills and restarts."""
    found = outcomes(records) if variant is None else outcomes(records, variant)
    return [f for f in found if isinstance(f, Finding) and f.kind in NAMES]


def impossible(records: Sequence[Record]) -> list[tuple[int, bool]]:
    """Record, and whether it was recorded, of each impossible decision."""
    return [(f.seq, f.recorded is not None) for f in ours(records) if f.verdict == "impossible"]


def contradictions(records: Sequence[Record]) -> list[Contradiction]:
    """Sources that disagree."""
    return [found for found in outcomes(records) if isinstance(found, Contradiction)]


def body_of(record: Record) -> Any:  # noqa: ANN401 # bodies of any kind
    """The body, whose kind the test knows."""
    return record.body


def of(node: str, kind: type, index: int = 0, **fields: Any) -> Record:  # noqa: ANN401 # any value
    """A record of a recording by its kind, fields and place among those."""
    return [
        record
        for record in recorded(node)
        if isinstance(record.body, kind)
        and all(getattr(record.body, name) == value for name, value in fields.items())
    ][index]


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("node-a", (41, 13, 8, 9)),
        ("node-b", (42, 14, 12, 14)),
    ],
)
def test_recordings_match(node: str, expected: tuple[int, ...]) -> None:
    """Every decision of both nodes is what is decided again, and nothing disagrees."""
    counts = Counter((f.kind, f.verdict) for f in ours(recorded(node)))
    assert counts == {
        (kind.kind, "match"): count for kind, count in zip(KINDS, expected, strict=True)
    }
    assert contradictions(recorded(node)) == []


def test_findings_tell_why() -> None:
    """With the numbers, the rule and the records they rest on."""
    found = {f.seq: f for f in ours(recorded("node-a"))}
    change = of("node-a", ProbeTransitioned, probe_type="liveness")
    assert found[change.seq].why == (
        "liveness failed 3 times in a row (threshold 3), last at 2026-11-21T02:59:48.440342Z, so "
        "the cached result went from success to failure"
    )
    assert change.cause in found[change.seq].inputs
    kill = found[of("node-a", ContainerKilled).seq]
    assert kill.why == (
        "the liveness probe of container app failed at 2026-11-21T02:59:48.440342Z, so it was "
        "killed with a 2 s grace period (configured 2 s; kubelet minimum 2 s)"
    )
    assert change.seq in kill.inputs
    restart = found[of("node-a", ContainerRestarted).seq]
    assert restart.why == (
        "container app was killed at 2026-11-21T02:59:48.440925Z because its liveness probe "
        "failed, and restart policy Always starts it again for the 1st time"
    )
    held = found[of("node-a", RestartBackedOff).seq]
    assert held.why == (
        "container app had been started again 3 times from 2026-11-21T03:00:20.48653Z to "
        "2026-11-21T03:01:20.493448Z, so its back-off was 40 s"
    )
    assert held.expected == {"back_off_s": 40}


LIES: list[tuple[str, type[Any], dict[str, Any], dict[str, Any]]] = [
    ("a", ProbeTransitioned, {"probe_type": "liveness"}, {"run": 2}),
    ("a", ProbeTransitioned, {"probe_type": "liveness"}, {"pod": "ready-flap"}),
    ("a", ProbeTransitioned, {"probe_type": "readiness"}, {"to_result": "failure"}),
    ("b", ProbeTransitioned, {"probe_type": "startup"}, {"to_result": "success"}),
    ("a", ContainerKilled, {"reason": "liveness_probe"}, {"reason": "startup_probe"}),
    ("a", ContainerKilled, {"reason": "liveness_probe"}, {"container_id": "f" * 64}),
    ("a", ContainerKilled, {"reason": "liveness_probe"}, {"message": "Stopping container app"}),
    ("a", ContainerKilled, {"reason": "liveness_probe"}, {"pod": "http-probe"}),
    ("a", ContainerKilled, {"reason": "preempted"}, {"grace_period_s": 30}),
    ("a", ContainerKilled, {"reason": "pod_deleted"}, {"reason": "preempted"}),
    ("a", ContainerRestarted, {}, {"previous_container_id": "f" * 64}),
    ("a", ContainerRestarted, {}, {"container_id": "f" * 64}),
    ("a", ContainerRestarted, {}, {"pod_uid": "other"}),
    ("b", ContainerRestarted, {}, {"reason": "preempted"}),
    ("a", RestartBackedOff, {}, {"back_off_s": 20}),
    ("b", RestartBackedOff, {}, {"pod": "other"}),
]


@pytest.mark.parametrize(("node", "kind", "which", "lie"), LIES)
def test_one_lie_makes_one_decision_impossible(
    node: str, kind: type, which: dict[str, Any], lie: dict[str, Any]
) -> None:
    """Whatever is changed, exactly that decision is found, also the last of its sort."""
    for index in (0, -1):
        record = of(f"node-{node}", kind, index, **which)
        assert impossible(changed(recorded(f"node-{node}"), record.seq, **lie)) == [
            (record.seq, True)
        ]


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("place", range(0, 440, 110))
def test_a_wrong_tick_is_found(node: str, place: int) -> None:
    """One wrong result makes the one decision that rests on it impossible, or disagrees."""
    record = of(node, ProbeExecuted, place)
    lie = "failure" if body_of(record).result == "success" else "success"
    records = changed(recorded(node), record.seq, result=lie)
    found = impossible(records)
    assert len(found) <= 1
    assert found or contradictions(records)


def test_a_wrong_restart_count_in_a_list_disagrees() -> None:
    """The list against the restarts that were seen."""
    record = [
        record
        for record in recorded("node-a")
        if isinstance(record.body, PodListed)
        and record.body.pod == "live-fail"
        and record.body.listed_by == "kubelet"
    ][5]
    status = msgspec.json.decode(msgspec.json.encode(body_of(record).status))
    status["containerStatuses"][0]["restartCount"] += 5
    records = changed(recorded("node-a"), record.seq, status=status)
    assert [found.why for found in contradictions(records)]
    assert impossible(records) == []


def test_lists_that_disagree_about_a_probe() -> None:
    """What cannot change in a pod is told by most lists; the odd one is shown."""
    record = [
        record
        for record in recorded("node-a")
        if isinstance(record.body, PodListed) and record.body.pod == "live-fail"
    ][-1]
    spec = msgspec.json.decode(msgspec.json.encode(body_of(record).spec))
    spec["containers"][0]["livenessProbe"]["failureThreshold"] = 2
    records = changed(recorded("node-a"), record.seq, spec=spec)
    (found,) = contradictions(records)
    assert "differ" in found.why
    assert impossible(records) == []


@pytest.mark.parametrize("node", NODES)
def test_a_missing_change_is_absent(node: str) -> None:
    """Without its record, the tick that led to it is named."""
    record = of(node, ProbeTransitioned, 5)
    records = [r for r in recorded(node) if r.seq != record.seq]
    assert impossible(records) == [(record.cause, False)]


def test_without_version_or_lists() -> None:
    """What is missing is named."""
    for kind, missing in ((KubeletStarted, "the kubelet's version"), (PodListed, "the pod's spec")):
        records = [r for r in recorded("node-b") if not isinstance(r.body, kind)]
        found = [f for f in ours(records) if f.kind != RestartBackedOff.kind]
        assert {m for f in found for m in f.missing} == {missing}


def test_other_settings_and_versions() -> None:
    """A variant's own maximum, and rules of another version, decide."""
    shorter = Variant(settings={"crashLoopBackOff": {"maxContainerRestartPeriod": "20s"}})
    found = [f for f in ours(recorded("node-b"), shorter) if f.verdict == "impossible"]
    assert {f.expected["back_off_s"] for f in found if f.expected is not None} == {20}
    older = Variant(kubelet_version="1.20.2")
    assert {f.verdict for f in ours(recorded("node-b"), older)} >= {"match"}
