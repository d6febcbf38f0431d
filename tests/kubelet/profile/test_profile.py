"""Versions resolve, facts start where they say, the parity page is current."""

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubeledger.kubelet.cases.registry import subsystem_of
from kubeledger.kubelet.profile.facts import NEWEST, OLDEST, Fact, KubeletVersion, parse_version
from kubeledger.kubelet.profile.resolve import FACT_TABLES, KubeletProfile, resolve
from kubeledger.model.errors import BadInputError, BadQuestionError
from tests.generated import stale
from tests.generated.parity import render
from tests.kubelet.cases.conformance import RECORDED, Case, canonical, load

ROOT = Path(__file__).parents[3]
CASES = ROOT / "tests" / "data" / "conformance"
FACTS = [
    (group, name, fact) for group, facts in FACT_TABLES.items() for name, fact in facts.items()
]

CASES_OF = {
    "admission": {"admission"},
    "allocation": {"resize"},
    "cgroups": {"cgroup", "cgroupv2", "nodeallocatable", "podstatus", "qos"},
    "devices": {"devices", "topologyhints"},
    "dra": {"dra"},
    "eviction": {"eviction"},
    "imagepull": {"imagepull"},
    "images": {"imagegc"},
    "kuberuntime": {"backoff", "podactions"},
    "prober": {"podstatus", "prober"},
    "resourcemanagers": {"cpumanager", "memorymanager", "topology"},
    "topology": {"topology", "topologyhints", "topologymerge"},
}
"""Group of facts -> subsystems of the conformance cases that show them."""


@pytest.mark.parametrize("minor", range(OLDEST, NEWEST + 1))
def test_every_known_version_resolves(minor: int) -> None:
    """With and without patch level, prefix and vendor suffix."""
    assert resolve(f"1.{minor}").version == KubeletVersion(minor=minor)
    assert resolve(f"v1.{minor}.3-gke.100").version == KubeletVersion(minor=minor, patch=3)


@pytest.mark.parametrize(
    "text", ["", "1.18.0", "1.38.0", "2.1.0", "latest", "1", "v0.0.0-master+x"]
)
def test_other_versions_are_refused_with_the_known_range(text: str) -> None:
    with pytest.raises(BadQuestionError) as caught:
        resolve(text)
    assert f"1.{OLDEST} to 1.{NEWEST}" in caught.value.advice


@pytest.mark.parametrize(
    ("version", "holds"),
    [("1.27.9", False), ("1.28.0", True), ("1.26.4", False), ("1.26.5", True), ("1.33.0", False)],
)
def test_a_fact_knows_backports_and_its_end(version: str, holds: bool) -> None:
    """Since, backports, until."""
    fact = Fact(since=28, backports={26: 5}, until=33, text="s", source="o", proof="source")
    assert fact.holds(parse_version(version)) is holds


def test_every_fact() -> None:
    """It differs between known versions, its text is a sentence, its proof is there."""
    for group, name, fact in FACTS:
        last = NEWEST + 1 if fact.until is None else fact.until
        assert fact.since is not None or fact.until is not None, name
        assert OLDEST < (fact.since or OLDEST + 1) <= NEWEST, name
        assert (fact.since or OLDEST) < last <= NEWEST + 1, name
        assert all(OLDEST <= minor < (fact.since or 0) for minor in fact.backports), name
        assert fact.text.endswith("."), name
        leaning = fact.text.startswith(("So ", "That ", "It ", "The same "))
        assert not leaning, f"{name} says only beside another fact what it is: {fact.text}"
        if fact.proof == "conformance":
            files = (each for of in CASES_OF[group] for each in CASES.glob(f"*/{of}.jsonl.zst"))
            with_gate = msgspec.structs.replace(fact, gate="")
            sides = {with_gate.holds(parse_version(each.parent.name)) for each in files}
            assert sides == {True, False}, f"{name}: cases of both sides are needed"


@cache
def _cases(subsystem: str) -> list[tuple[KubeletProfile, Any, Case]]:
    form = subsystem_of(subsystem).input
    return [
        (resolve(version), msgspec.convert(case["input"], form, str_keys=True), case)
        for version, of in RECORDED
        if of == subsystem
        for case in load(version, subsystem)
    ]


def _is_decided(subsystem: str, profile: KubeletProfile, case_input: object, case: Case) -> bool:
    """Whether what comes out by this profile is what the real kubelet decided."""
    of = subsystem_of(subsystem)
    try:
        decided = of.decide(case_input, profile)
    except BadInputError:
        return False
    outcomes = {canonical(outcome): outcome for outcome in case["outcomes"]}
    if canonical(msgspec.json.decode(msgspec.json.encode(decided))) not in outcomes:
        return False
    claims: list[Any] = [
        msgspec.convert(each, of.outcome, str_keys=True) for each in outcomes.values()
    ]
    others = [each for each in claims if each != decided]
    if of.nearest is None:
        return not others
    return all(of.nearest(case_input, profile, decided, each) == each for each in others)


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group, name, fact in FACTS if fact.proof == "conformance"]
)
def test_a_fact_that_cases_prove_decides_one_of_them(group: str, name: str) -> None:
    """Were it the other way round, another outcome would come of some case; else say ``source``."""

    def without(profile: KubeletProfile) -> KubeletProfile:
        facts = getattr(profile, group)
        facts = msgspec.structs.replace(facts, **{name: not getattr(facts, name)})
        return msgspec.structs.replace(profile, **{group: facts})

    assert any(
        not _is_decided(subsystem, without(profile), case_input, case)
        for subsystem in sorted(CASES_OF[group])
        for profile, case_input, case in _cases(subsystem)
    )


def test_the_parity_page_is_current() -> None:
    """Rewrite it with ``just docs``."""
    assert not stale("docs/internals/parity.md", render())
