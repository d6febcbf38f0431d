"""The first difference between a claim and what the kubelet can do; which outcome is nearest."""

from __future__ import annotations

import pytest

from kubeledger.kubelet.cases.fields import first_difference


@pytest.mark.parametrize(
    ("possible", "claimed", "said"),
    [
        ({"a": 1}, {"a": 1}, ""),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, "b: the claim has 3, the kubelet gives 2"),
        ({"a": True}, {"a": 1}, "a: the claim has 1, the kubelet gives true"),
        ({"x.y/z": 1}, {"x.y/z": 2}, '["x.y/z"]: the claim has 2, the kubelet gives 1'),
        ({"a": 1}, {}, "a: the claim has nothing, the kubelet gives 1"),
        ({}, {"a": [1]}, "a: the claim has [1], the kubelet gives nothing"),
        ({"s": [{"a": 1}]}, {"s": [{"a": 2}]}, "s[0].a: the claim has 2, the kubelet gives 1"),
        (
            {"s": [{}, {"a": 1}]},
            {"s": [{}]},
            's[1]: the claim has nothing, the kubelet gives {"a":1}',
        ),
        ({"s": []}, {"s": [{}]}, "s[0]: the claim has {}, the kubelet gives nothing"),
        ({"s": [1]}, {"s": [2, 1]}, "s: the claim has [2,1], the kubelet gives [1]"),
        ({"s": None}, {"s": {}}, "s: the claim has {}, the kubelet gives null"),
        ([], {}, "the outcome: the claim has {}, the kubelet gives []"),
    ],
)
def test_the_first_difference(possible: object, claimed: object, said: str) -> None:
    """In the order of the outcome: the path, and who says what."""
    assert first_difference(possible, claimed) == said


def test_a_long_value_is_cut() -> None:
    """It may have any length."""
    assert len(first_difference({"a": "x" * 9999}, {"a": ""})) < 900
