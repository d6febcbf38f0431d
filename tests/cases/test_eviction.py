"""The eviction manager against the recorded kubelet; version boundaries; ties."""

from __future__ import annotations

import pytest

from tests.cases.cgroup_lines import Lines
from tests.cases.conformance import canonical, impossible_claims, load

LINES = Lines("eviction")
RECORDED = ("1.30.1", "1.36.2")


@pytest.mark.parametrize("version", RECORDED)
def test_decides_as_the_real_kubelet(version: str) -> None:
    """One of the recorded outcomes, for each case; all of them are possible, one is the match."""
    for case in load(version, "eviction"):
        recorded = [canonical(outcome) for outcome in case["outcomes"]]
        assert canonical(LINES.decided(version, case["input"])) in recorded, case["id"]
        verdicts = [LINES.judged(version, case["input"], o)[0] for o in case["outcomes"]]
        assert sorted(verdicts) == ["admissible"] * (len(verdicts) - 1) + ["match"], case["id"]


@pytest.mark.parametrize("version", RECORDED)
def test_what_the_real_kubelet_never_did_is_impossible(version: str) -> None:
    """Changed outcomes, and those of other cases; each with a reason."""
    for case, wrong in impossible_claims(load(version, "eviction"), seed=11):
        verdict, why = LINES.judged(version, case["input"], wrong)
        assert verdict == "impossible", case["id"]
        assert len(why) > 20
