"""Two sources of one fact: what disagrees, and what may be of another time."""

from __future__ import annotations

import pytest

from kubeledger.verify.finding import Dispute, Row, Witnesses

SECOND = 10**9


def row(value: str | None, at_s: int) -> Row[str]:
    return Row("colour", "x", value, at_s, at_s * SECOND, f"{value}")


@pytest.mark.parametrize(
    ("change", "reading", "disputes"),
    [
        ([("red", 0)], ("red", 60), []),
        ([("red", 0)], ("blue", 60), [("red", "blue")]),
        ([("red", 0), ("blue", 66)], ("blue", 60), []),  # it may be of then
        ([("red", 0), ("blue", 90)], ("blue", 60), [("red", "blue")]),
        ([("blue", 0), ("red", 56)], ("blue", 60), []),
        ([("red", 0), (None, 30)], ("blue", 60), []),  # open from then on
        ([("red", 58)], ("blue", 60), []),  # before it was open
        ([], ("blue", 60), []),
    ],
)
def test_within_its_reach(
    change: list[tuple[str | None, int]], reading: tuple[str, int], disputes: list[tuple[str, str]]
) -> None:
    """A reading is right if the fact had its value at some time within the reach."""
    facts: Witnesses[str] = Witnesses(10 * SECOND)
    found: list[Dispute[str]] = []
    steps = [(at_s, False, value) for value, at_s in change] + [(reading[1], True, reading[0])]
    for at_s, is_reading, value in sorted(steps, key=lambda step: step[0]):
        found += list(facts.passed(at_s * SECOND))
        (facts.note_reading if is_reading else facts.note_change)(row(value, at_s))
    found += list(facts.passed(None))
    assert [(one.change.value, one.reading.value) for one in found] == disputes


def test_each_pair_once() -> None:
    facts: Witnesses[str] = Witnesses(10 * SECOND)
    facts.note_change(row("red", 0))
    for at_s in (60, 70, 80):
        facts.note_reading(row("blue", at_s))
    assert len(list(facts.passed(None))) == 1
