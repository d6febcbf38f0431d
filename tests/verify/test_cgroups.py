"""Cgroup decisions of real nodes, decided again, and lies about them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.cgroups import CgroupUpdated, QOSCgroupsUpdated
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.bodies.node import SettingsObserved
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify import Contradiction, Finding, Variant, registry
from kubeledger.verify.rules.cgroups.drift import drift_of
from kubeledger.verify.rules.cgroups.rule import CgroupVerifier
from tests.verify.histories import changed, findings, outcomes, recorded

NODES = ["node-a", "node-b"]
PERIOD_NS = 60 * NS_PER_S


@pytest.fixture(autouse=True, scope="module")
def only_cgroups() -> Any:  # noqa: ANN401 # a generator fixture
    """Other subjects have tests of their own."""
    patch = pytest.MonkeyPatch()
    patch.setattr(registry, "VERIFIERS", (CgroupVerifier,))
    yield
    patch.undo()


def ours(records: list[Record] | tuple[Record, ...], variant: Variant = Variant()) -> list[Finding]:  # noqa: B008 # immutable
    """Findings about cgroups."""
    return [f for f in findings(records, variant) if f.kind.startswith("cgroups.")]


def impossible(records: list[Record] | tuple[Record, ...]) -> list[int]:
    """Where something cannot be."""
    return [f.seq for f in ours(records) if f.verdict == "impossible"]


def moved(records: tuple[Record, ...], seq: int, by_s: float) -> list[Record]:
    """A copy in which one record has another time."""
    copy = [
        msgspec.structs.replace(r, ts_ns=r.ts_ns + round(by_s * NS_PER_S)) if r.seq == seq else r
        for r in records
    ]
    return sorted(copy, key=lambda record: record.ts_ns)


@pytest.mark.parametrize("node", NODES)
def test_real_decisions(node: str) -> None:
    """None is impossible, and at least nine in ten of each kind are decided."""
    verdicts: dict[str, Counter[str]] = {}
    for finding in ours(recorded(node)):
        verdicts.setdefault(finding.kind, Counter())[finding.verdict] += 1
    assert set(verdicts) == {
        "cgroups.CgroupUpdated",
        "cgroups.CgroupRemoved",
        "cgroups.QOSCgroupsUpdated",
    }
    for counts in verdicts.values():
        assert not counts["impossible"]
        assert 10 * (counts["match"] + counts["admissible"]) >= 9 * counts.total()
    assert not any(isinstance(outcome, Contradiction) for outcome in outcomes(recorded(node)))


def test_the_sentence_holds_the_numbers() -> None:
    """Why burstable has 307 shares, and on which records that rests."""
    found = [
        f
        for f in ours(recorded("node-a"))
        if f.subject == "cgroup/kubepods/burstable" and (f.recorded or {}).get("cpu_shares") == 307
    ]
    assert len(found) == 1
    assert "request 300m CPU together, which are 307 shares" in found[0].why
    assert found[0].rule.endswith("UpdateCgroups")
    assert found[0].inputs


# Lies ---------------------------------------------------------------------------------------

VALUES = ["cpu_shares", "cpu_quota_us", "cpu_period_us", "memory_limit_bytes"]
OTHER_CLASS = {
    "Guaranteed": "Burstable",
    "Burstable": "BestEffort",
    "BestEffort": "Guaranteed",
    None: "Burstable",
}


def lies_about(record: Record) -> list[dict[str, Any]]:
    """Each value of a record, changed."""
    body = record.body
    assert isinstance(body, CgroupUpdated)
    lies: list[dict[str, Any]] = [
        {name: getattr(body, name) + (4096 if name == "memory_limit_bytes" else 1)}
        for name in VALUES
    ]
    lies.append({"qos_class": OTHER_CLASS[body.qos_class]})
    lies.append({"pod_uid": "another"})
    if body.level in ("qos", "pod"):
        lies.append({"other": {"pids.max": "77"}})
    return lies


@pytest.mark.parametrize("level", ["node", "qos", "pod", "container"])
def test_a_changed_value_is_found(level: str) -> None:
    """Exactly that record cannot be; all values of the first and the last record of a level."""
    records = recorded("node-a")
    of_level = [
        record
        for record in records
        if isinstance(record.body, CgroupUpdated) and record.body.level == level
    ]
    for record in (of_level[0], of_level[-1]):
        for lie in lies_about(record):
            assert impossible(changed(records, record.seq, **lie)) == [record.seq], lie


def beats(records: tuple[Record, ...]) -> list[Record]:
    """Writes a minute after another and a minute before a third: those of the timer alone."""
    writes = [record for record in records if isinstance(record.body, QOSCgroupsUpdated)]
    times = [write.ts_ns for write in writes]

    def near(ts_ns: int) -> bool:
        return any(abs(ts_ns - other) < NS_PER_S // 10 for other in times)

    return [w for w in writes if near(w.ts_ns - PERIOD_NS) and near(w.ts_ns + PERIOD_NS)]


@pytest.mark.parametrize("by_s", [-25, 11, 30])
def test_a_moved_write_is_found(by_s: float) -> None:
    """It was not due then. The log tells of it in the place of the beat that is missing."""
    records = recorded("node-b")
    alone = beats(records)[-3:]
    assert alone
    for write in alone:
        assert impossible(moved(records, write.seq, by_s)) == [write.seq]


def test_a_missing_beat_is_no_proof() -> None:
    """Its line may be lost; what rests on the log being whole around it is not claimed then."""
    records = recorded("node-b")
    for gone in beats(records):
        assert impossible([r for r in records if r is not gone]) == []


def test_two_lists_that_disagree() -> None:
    """A pod's resources cannot change in 1.20: both sides are shown."""
    records = recorded("node-a")
    listed = [
        r
        for r in records
        if isinstance(r.body, PodListed) and r.body.pod == "burstable-1" and r.body.spec
    ]
    body = listed[1].body
    assert isinstance(body, PodListed)
    assert body.spec is not None
    spec = msgspec.json.decode(msgspec.json.encode(body.spec))
    spec["containers"][0]["resources"]["requests"]["cpu"] = "260m"
    found = [
        o
        for o in outcomes(changed(records, listed[1].seq, spec=spec))
        if isinstance(o, Contradiction)
    ]
    assert [side.seq for side in found[0].sides] == [listed[0].seq, listed[1].seq]
    assert "260m" in found[0].sides[1].says


# Settings and versions ----------------------------------------------------------------------


def test_another_reservation_gives_another_node_cgroup() -> None:
    """What if kubeReserved had been 300m: only the cgroup of all pods differs."""
    variant = Variant(settings={"kubeReserved": {"cpu": "300m", "memory": "256Mi"}})
    wrong = [f for f in ours(recorded("node-a"), variant) if f.verdict == "impossible"]
    assert [f.subject for f in wrong] == ["cgroup/kubepods"]
    assert (wrong[0].expected or {})["cpu_shares"] == 1536


def test_without_quota() -> None:
    """What if cpuCFSQuota were off: every cgroup with a quota differs, and no other."""
    records = recorded("node-a")
    wrong = [f for f in ours(records, Variant(settings={"cpuCFSQuota": False}))
             if f.verdict == "impossible"]  # fmt: skip
    limited = [
        r.seq for r in records if isinstance(r.body, CgroupUpdated) and r.body.cpu_quota_us != -1
    ]
    assert [f.seq for f in wrong] == limited


def test_an_unknown_version() -> None:
    """Nothing is decided about values by the rules of another version."""
    found = ours(recorded("node-b"), Variant(kubelet_version="1.99.0"))
    values = [f for f in found if f.kind == "cgroups.CgroupUpdated"]
    assert {f.verdict for f in values} == {"unverifiable"}
    assert {f.missing for f in values} == {("the rules of kubelet 1.99.0",)}


@pytest.mark.parametrize(
    ("setting", "level", "missing"),
    [
        ("cpuCFSQuota", "pod", "the setting cpuCFSQuota"),
        ("cpuCFSQuotaPeriod", "container", "the setting cpuCFSQuotaPeriod"),
        ("kubeReserved", "node", "the settings systemReserved and kubeReserved"),
        ("enforceNodeAllocatable", "node", "the setting enforceNodeAllocatable"),
        ("qosReserved", "qos", "the settings qosReserved and featureGates"),
        ("featureGates", "qos", "the settings qosReserved and featureGates"),
    ],
)
def test_a_missing_setting_is_named(setting: str, level: str, missing: str) -> None:
    """No default is put in its place."""
    records = []
    for record in recorded("node-a"):
        body = record.body
        if isinstance(body, SettingsObserved):
            kept = {name: value for name, value in body.settings.items() if name != setting}
            body = msgspec.structs.replace(body, settings=kept)
            record = msgspec.structs.replace(record, body=body)
        records.append(record)
    of_level = {
        r.seq for r in records if isinstance(r.body, CgroupUpdated) and r.body.level == level
    }
    found = [f for f in ours(records) if f.seq in of_level and f.kind == CgroupUpdated.kind]
    assert found
    assert all(f.verdict == "unverifiable" and missing in f.missing for f in found)


# Drift --------------------------------------------------------------------------------------


def test_drift_lists_single_values() -> None:
    """Two values of one cgroup are two lines."""
    records = recorded("node-a")
    record = next(r for r in records if isinstance(r.body, CgroupUpdated) and r.body.level == "pod")
    lied = changed(records, record.seq, cpu_shares=99, other={"pids.max": "5"})
    drifts = [drift for finding in ours(lied) for drift in drift_of(finding)]
    assert [(d.seq, d.value, d.expected, d.found) for d in drifts] == [
        (record.seq, "cpu_shares", 2, 99),
        (record.seq, "other/pids.max", "max", "5"),
    ]
