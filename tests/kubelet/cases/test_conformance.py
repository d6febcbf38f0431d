"""Every kind of case against what the real kubelet decided, and against what it never did."""

from __future__ import annotations

import re

import pytest

from tests.kubelet.cases.conformance import RECORDED, canonical, impossible_claims, load
from tests.kubelet.cases.lines import Lines

_JUDGED_MAX = 10
"""Of the outcomes of one case."""

recorded = pytest.mark.parametrize(("version", "subsystem"), RECORDED)


@recorded
def test_decides_as_the_real_kubelet(version: str, subsystem: str) -> None:
    """One of the recorded outcomes, for each case; that one is the match, others are possible."""
    lines, cases = Lines(subsystem), load(version, subsystem)
    assert len(cases) >= 20
    for case in cases:
        decided = canonical(lines.decided(version, case["input"]))
        assert decided in map(canonical, case["outcomes"]), case["id"]
        for outcome in case["outcomes"][:_JUDGED_MAX]:
            verdict, why = lines.judged(version, case["input"], outcome)
            expected = "match" if canonical(outcome) == decided else "admissible"
            assert verdict == expected, (case["id"], why)


@recorded
def test_what_the_real_kubelet_never_did_is_impossible(version: str, subsystem: str) -> None:
    """Changed outcomes, and those of other cases; each with what differs."""
    lines = Lines(subsystem)
    for case, wrong in impossible_claims(load(version, subsystem), seed=5):
        verdict, why = lines.judged(version, case["input"], wrong)
        assert verdict == "impossible", case["id"]
        assert re.search(r"not|missing|nothing|shape", why), case["id"]
