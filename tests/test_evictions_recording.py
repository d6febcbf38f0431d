"""The evictions of a real node: rows against what its log says, verdicts, lies and lost evidence.

``data/truth/node-e-evictions.csv`` was taken from the raw log of the whole node by a script of
regular expressions that shares nothing with the package.
"""

import csv
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubeledger.analyze.sql.api import connect
from kubeledger.model.bodies.eviction import (
    NodeConditionsChanged,
    PodSpared,
    PodUsageObserved,
    ReclaimAttempted,
)
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.lifecycle import ContainerStarted, PodEvicted, PodListed
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.record import Record
from kubeledger.model.units import format_ts
from kubeledger.verify import Finding, Variant, registry
from kubeledger.verify.rules.evictions.rule import EvictionVerifier
from tests.recordings import import_recording
from tests.verify.histories import findings, recorded

RECORDING = "node-e-evictions"
TRUTH = Path(__file__).parent / "data" / "truth" / "node-e-evictions.csv"
JUDGED = (PodEvicted, PodSpared, ReclaimAttempted, NodeConditionsChanged)


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Only evictions are verified: the recording is read often here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "verifiers_for", lambda kinds: (EvictionVerifier,))
        yield


def judged(records: list[Record], variant: Variant | None = None) -> dict[int, Finding]:
    """Seq of a recorded decision of the eviction manager -> finding."""
    kinds = {body.kind for body in JUDGED}
    found = findings(records, variant or Variant())
    return {f.seq: f for f in found if f.kind in kinds and f.recorded is not None}


@cache
def real() -> list[Record]:
    return list(recorded(RECORDING))


def bodies(kind: type[Any]) -> list[Record]:
    return [record for record in real() if isinstance(record.body, kind)]


def test_rows_are_what_the_log_says(tmp_path: Path) -> None:
    """34 evictions of 31 pods: memory, nodefs, imagefs, limits; hard and soft."""
    ledger, _ = import_recording(RECORDING, tmp_path / "ledger")
    with connect(ledger.path) as database:
        rows = database.sql(
            "SELECT namespace || '/' || pod, pod_uid, signal, threshold, observed, kind, rank[1],"
            " resource, grace_period_s, evicted, array_to_string(spared, ' '), message"
            " FROM evictions ORDER BY seq"
        ).fetchall()
    with TRUTH.open(newline="", encoding="utf-8") as file:
        _, *truth = csv.reader(file)
    reported = [
        ["" if v is None else str(v).lower() if isinstance(v, bool) else str(v) for v in row]
        for row in rows
    ]
    assert reported == truth


def test_every_decision_is_one_that_this_kubelet_takes() -> None:
    """Thresholds, conditions, reclaims, rankings, grace periods and words.

    One ranking has a pod first that had just begun: with statistics of it the kubelet had ranked
    another one first.
    """
    found = judged(real())
    assert len(found) == 80
    (open_,) = (finding for finding in found.values() if finding.verdict != "match")
    assert open_.missing == ("whether the kubelet had statistics of pod default/rank-over-b",)
    reported = [r for r in bodies(PodEvicted) if r.body.since_ts_ns is not None]  # type: ignore[attr-defined]
    assert reported
    for record in reported:  # to the second: the round began before its lines
        since = format_ts(record.body.since_ts_ns)[:-8]  # type: ignore[attr-defined]
        assert f"since {since}" in found[record.seq].why


def _with(seq: int, **fields: Any) -> list[Record]:  # noqa: ANN401 # any field
    return [
        msgspec.structs.replace(r, body=msgspec.structs.replace(r.body, **fields))
        if r.seq == seq
        else r
        for r in real()
    ]


LIES = {
    "threshold": 4096,
    "observed": -4096,
    "grace_period_s": 3,
    "rank": 1,
    "signal": "pid.available",
    "resource": "inodes",
    "threshold_kind": "allocatable",
    "message": "The node was low on resource: memory. ",
}
"""Field -> what it is changed by, or to."""


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_impossible(name: str) -> None:
    """One field of an eviction drawn at random is another one."""
    reported = [record for record in bodies(PodEvicted) if getattr(record.body, name) is not None]
    record = random.Random(name).choice(reported)
    value, lie = getattr(record.body, name), LIES[name]
    changed = {name: value + lie if isinstance(lie, int) else lie}
    assert judged(_with(record.seq, **changed))[record.seq].verdict == "impossible"


def test_another_pod_first_is_found_out_where_samples_tell() -> None:
    """Ranking and eviction agree on the wrong pod: hog-guar never exceeds its request."""
    (eviction,) = [r for r in bodies(PodEvicted) if r.body.pod == "hog-be"]  # type: ignore[attr-defined]
    (reclaim,) = [r for r in bodies(ReclaimAttempted) if r.seq == eviction.cause]
    assert isinstance(reclaim.body, ReclaimAttempted)
    ranked = list(reclaim.body.ranked or ())
    place = next(i for i, pod in enumerate(ranked) if pod.pod == "hog-guar")
    other = ranked[place]
    ranked[0], ranked[place] = ranked[place], ranked[0]
    named = {"pod": other.pod, "pod_uid": other.pod_uid}
    lied = [
        msgspec.structs.replace(r, body=msgspec.structs.replace(r.body, **named))
        if r is eviction
        else r
        for r in _with(reclaim.seq, ranked=tuple(ranked))
    ]
    found = judged(lied)
    assert found[eviction.seq].verdict == found[reclaim.seq].verdict == "impossible"
    assert "pod default/be-1 had to go before it" in found[eviction.seq].why


def _begun_before(record: Record) -> Record:
    if not isinstance(record.body, KubeletStarted):
        return record
    return msgspec.structs.replace(
        record, body=msgspec.structs.replace(record.body, from_start=False)
    )


@pytest.mark.parametrize(
    "gone",
    [
        (EvictionSignalObserved, NodeConditionsChanged),
        (PodUsageObserved,),
        (ContainerStarted,),
        (PodListed,),
        (ReclaimAttempted,),
    ],
)
def test_a_source_that_is_not_there_makes_nothing_impossible(gone: tuple[type[Any], ...]) -> None:
    found = judged([record for record in real() if not isinstance(record.body, gone)])
    assert [f.why for f in found.values() if f.verdict == "impossible"] == []


def test_without_the_lines_of_the_manager_its_evictions_are_not_impossible() -> None:
    """The signals before an eviction may be those that were read again after a reclaim."""
    gone = (ReclaimAttempted, NodeConditionsChanged, PodSpared)
    found = judged(
        [
            msgspec.structs.replace(r, cause=None) if isinstance(r.body, PodEvicted) else r
            for r in real()
            if not isinstance(r.body, gone)
        ]
    )
    assert {f.verdict for f in found.values()} == {"match", "unverifiable"}


@pytest.mark.parametrize("seed", range(4))
def test_lost_evidence_makes_nothing_impossible(seed: int) -> None:
    """Lists, samples and starts at random, a hole of some hundred records, and the beginning."""
    draw = random.Random(seed)
    some = (PodListed, PodUsageObserved, ContainerStarted)
    hole = draw.randrange(len(real()))
    records = [
        _begun_before(record)
        for place, record in enumerate(real())
        if not (isinstance(record.body, some) and draw.random() < 0.3)
        and (not hole < place < hole + 400 or record.kind.startswith("node."))
    ]
    found = judged(records)
    assert [f.why for f in found.values() if f.verdict == "impossible"] == []
