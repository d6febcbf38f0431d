"""The first difference between a claim and what the kubelet can do; which outcome is nearest."""

from __future__ import annotations

import pytest

from kubeledger.kubelet.cases.fields import first_difference
from tests.kubelet.cases import test_imagegc as images
from tests.kubelet.cases.lines import Lines


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ({"a": 1}, {"a": 1}, ""),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, "b is 2, not 3"),
        ({"a": True}, {"a": 1}, "a is true, not 1"),
        ({"a": {"x.y/z": 1}}, {"a": {"x.y/z": 2}}, 'a["x.y/z"] is 1, not 2'),
        ({"a": 1}, {}, "a is missing: it is 1"),
        ({}, {"a": [1]}, "a is [1], where the kubelet gives nothing"),
        ({"s": [{"a": 1}]}, {"s": [{"a": 2}]}, "s[0].a is 1, not 2"),
        ({"s": [{"a": 1}]}, {"s": []}, "s has 1 entries, not 0"),
        ({"s": ["a"]}, {"s": ["b", "a"]}, 's is ["a"], not ["b","a"]'),
        ({"s": None}, {"s": {}}, "s is null, not {}"),
        ([], {}, "the outcome is [], not {}"),
    ],
)
def test_the_first_difference(ours: object, theirs: object, said: str) -> None:
    """In the order of the outcome, with the path of the value."""
    assert first_difference(ours, theirs) == said


def test_a_long_value_is_cut() -> None:
    """It may have any length."""
    assert len(first_difference({"a": "x" * 9999}, {"a": ""})) < 900


def test_the_difference_is_behind_what_chance_allows() -> None:
    """A claim that takes the other of two tied images is compared from there on."""
    lines = Lines("imagegc")
    given = images.case_input(images.step("deleteUnusedImages"))
    decided = lines.decided("1.36.2", given)
    first = decided["steps"][0]["removed"]
    other = decided | {"steps": [decided["steps"][0] | {"removed": first[::-1], "error": "x"}]}
    assert lines.judged("1.36.2", given, other) == ("impossible", 'steps[0].error is "", not "x"')
