"""Managers by version: what they do is sound, and lies about what they assign are caught."""

from __future__ import annotations

import pytest

from kubeledger.model.record import Record
from kubeledger.verify import Contradiction
from tests.simulate.engine.scenes import outcomes
from tests.verify.properties.assignment_lies import KINDS, LIARS
from tests.verify.properties.assignment_telling import NOT_KEPT, SINCE, Heard, hear, names, told

_LEAST = 95
"""Percentage of lies that are caught, of those whose inputs are all there."""
_SOME = (
    "cpus/1.28.0/plain", "cpus/1.36.2", "memory/1.30.14", "memory/1.34.9/alone", "resizes/1.33.13",
    "resizes/1.36.2", "claims/1.34.9",
)  # fmt: skip


def decided(records: tuple[Record, ...]) -> set[str]:
    """Kinds of decisions in records."""
    return {record.kind for record in records if record.role == "decision"}


@pytest.mark.parametrize("name", [*names()])
def test_a_manager_by_the_rules_of_each_version(name: str) -> None:
    """Nothing is impossible, and no two sources contradict each other."""
    records = told(name)
    found = outcomes(list(records))
    assert not [
        each for each in found if isinstance(each, Contradiction) or each.verdict == "impossible"
    ]
    managers = {each.kind for each in KINDS} - {"lifecycle.PodAdmitted"}
    assert decided(records) & managers
    assert name.partition("/")[0] in SINCE


def too_kind(heard: list[Heard]) -> list[str]:
    """What was believed, where that is more than a few."""
    known = [each for each in heard if each.verdict != "open" and each.kind not in NOT_KEPT]
    believed = [
        f"{each.kind}: {each.truth} {each.seq}" for each in known if each.verdict != "caught"
    ]
    return believed if len(believed) * 100 > (100 - _LEAST) * len(known) else []


def test_lies_about_assignments() -> None:
    """One of each kind on several nodes; what is not caught lacks an input, or is rare."""
    heard = [each for name in _SOME for each in hear(name, told(name), 1)]
    assert {each.kind for each in heard} == set(LIARS)
    assert too_kind(heard) == []
    assert sum(each.verdict == "open" for each in heard) * 100 <= 10 * len(heard)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [*names()])
def test_many_lies_about_assignments(name: str) -> None:
    """Of every kind, as often as there is something to lie about."""
    assert too_kind(list(hear(name, told(name), 100))) == []
