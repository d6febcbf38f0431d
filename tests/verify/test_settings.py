"""Settings under a variant; counts of outcomes."""

import msgspec
import pytest

from kubeledger.model.bodies.node import KubeletStarted, SettingsObserved
from kubeledger.model.record import Body, Evidence, Record
from kubeledger.replay.node.state import time_in_name
from kubeledger.verify import Contradiction, Finding, Variant, Verdict, verify
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.finding import Tally
from kubeledger.verify.variant import RECORDED, UNKNOWN, Settings
from tests.verify.histories import kubelet_of, reader, scene, settings_told, settled


def observed(**values: object) -> SettingsObserved:
    return settings_told(values)


def started(pid: int, *, from_start: bool = True) -> KubeletStarted:
    return kubelet_of("1.30.1", pid=pid, from_start=from_start)


def context_of(
    *bodies: tuple[int, Body], variant: Variant = RECORDED
) -> tuple[VerifyContext, list[Record]]:
    records = scene(*bodies)
    return settled(records, variant), records


def of_process(variant: Variant = RECORDED, **values: object) -> Settings:
    context, records = context_of((0, started(1)), (1, observed(**values)), variant=variant)
    context.observe(records[0])
    return context.settings


def test_what_no_source_tells_is_unknown() -> None:
    """No default is assumed; null is a value. What is told later held from the start on."""
    settings = Settings(Variant())
    assert settings.get("maxPods") is UNKNOWN
    assert settings.seq is None
    settings = of_process(maxPods=5, evictionHard=None)
    assert [settings.get("maxPods"), settings.get("evictionHard")] == [5, None]
    assert [settings.seq] == [2]
    assert settings.get("podsPerCore") is UNKNOWN
    assert repr(UNKNOWN) == "UNKNOWN"


def test_a_number_that_no_setting_can_have_is_none() -> None:
    """It stays a text, so that nobody reckons with it; a wide one that fits is a number."""
    settings = of_process(maxPods=2**63, podPidsLimit=-(2**63), podsPerCore=2**63 - 1)
    assert settings.get("maxPods") == "9223372036854775808"
    assert settings.get("podPidsLimit") == str(-(2**63))
    assert settings.get("podsPerCore") == 2**63 - 1


def test_a_variant_goes_over_what_is_recorded() -> None:
    """From the first record on, and through every restart; it can take a setting away."""
    variant = Variant(settings={"maxPods": 9, "podsPerCore": UNKNOWN})
    assert Settings(variant).get("maxPods") == 9
    settings = of_process(variant, maxPods=5, podsPerCore=2, v=5)
    assert settings.get("maxPods") == 9
    assert settings.get("podsPerCore") is UNKNOWN
    assert settings.get("v") == 5


def test_another_process_has_its_own() -> None:
    context, records = context_of(
        (0, started(1)), (1, observed(maxPods=5, v=5)), (8, started(2)), (9, observed(maxPods=6))
    )
    for record in records:
        context.observe(record)
    assert context.settings.get("maxPods") == 6
    assert context.settings.get("v") is UNKNOWN
    assert context.former_settings.get("maxPods") == 5


@pytest.mark.parametrize(
    ("name", "from_start", "value"),
    [
        ("snapshots/20260101T000001Z/configz.json", False, UNKNOWN),
        ("snapshots/20260101T000001Z/configz.json", True, UNKNOWN),
        ("configz.json", False, 5),
        ("snapshots/20260101T000011Z/configz.json", False, 5),
    ],
)
def test_a_snapshot_counts_for_the_process_that_ran(
    name: str, from_start: bool, value: object
) -> None:
    """One from before the log is perhaps of a process that the log does not show."""
    at_ns = time_in_name("20260101T000010Z")
    assert at_ns is not None
    start, reported = scene((0, started(1, from_start=from_start)), (0, observed(maxPods=5)))
    start = msgspec.structs.replace(start, ts_ns=at_ns)
    taken_ns = time_in_name(name) or at_ns
    reported = msgspec.structs.replace(reported, ts_ns=taken_ns, evidence=(Evidence(file=name),))
    context = settled([start, reported])
    context.observe(start)
    assert context.settings.get("maxPods") == value


def test_a_variant_version_goes_over_what_is_recorded() -> None:
    for recorded in ("1.20.2", None):
        (record,) = scene((0, kubelet_of(recorded)))
        context = settled([record], Variant(kubelet_version="1.36.2"))
        context.observe(record)
        assert context.profile is not None
        assert context.profile.version.minor == 36


def test_conflicts_of_settings_are_contradictions() -> None:
    body = SettingsObserved(settings={}, conflicts=("maxPods: a says 1, b says 2", "odd"))
    first, second = verify(reader(scene((0, body))))
    assert isinstance(first, Contradiction)
    assert isinstance(second, Contradiction)
    assert first.why == "sources disagree on maxPods"
    assert [side.says for side in first.sides] == ["a says 1", "b says 2"]
    assert [side.says for side in second.sides] == ["odd"]


def test_a_file_of_another_time_contradicts_nothing() -> None:
    body = SettingsObserved(settings={}, outdated=("maxPods: a says 1, b says 2",))
    assert list(verify(reader(scene((0, body))))) == []


def finding(kind: str, verdict: Verdict, *missing: str) -> Finding:
    return Finding(seq=1, ts_ns=0, kind=kind, subject="node", verdict=verdict, missing=missing)


def test_the_tally() -> None:
    """By kind and verdict; contradictions and what is missing apart."""
    tally = Tally()
    for outcome in (
        finding("a", "match"), finding("a", "match"), finding("a", "impossible"),
        finding("b", "unverifiable", "x", "y"), finding("b", "unverifiable", "x"),
        Contradiction(ts_ns=0, subject="node", why="", sides=()),
    ):  # fmt: skip
        tally.add(outcome)
    assert tally.decisions == 5
    assert [tally.count(v) for v in ("match", "admissible", "impossible", "unverifiable")] == [
        2, 0, 1, 2,
    ]  # fmt: skip
    assert dict(tally.by_kind["a"]) == {"match": 2, "impossible": 1}
    assert dict(tally.missing) == {"x": 2, "y": 1}
    assert tally.contradictions == 1


def test_a_process_that_tells_nothing_inherits_only_what_all_tell() -> None:
    """Each reads its files anew; a report about the same process changes nothing."""
    reported = observed(maxPods=5, podPidsLimit=9), observed(maxPods=7, podPidsLimit=9)
    context, records = context_of(
        (0, started(1)), (1, reported[0]), (2, started(1, from_start=False)),
        (13, started(2)), (14, reported[1]), (25, started(3)),
    )  # fmt: skip
    seen = []
    for record in records:
        context.observe(record)
        seen.append((context.settings.get("maxPods"), context.settings.get("podPidsLimit")))
    assert seen == [(5, 9), (5, 9), (5, 9), (7, 9), (7, 9), (UNKNOWN, 9)]
