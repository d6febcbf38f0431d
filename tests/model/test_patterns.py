"""Regular expressions that are compiled later."""

import re

import pytest

from kubeledger.model.patterns import cached_if_short, regex


def test_it_is_the_compiled_one_once_it_is_asked() -> None:
    number = regex(r"(?P<letter>[a-z])(\d+)", re.IGNORECASE)
    assert number.pattern == r"(?P<letter>[a-z])(\d+)"
    found = number.search("..B12")
    assert found is not None
    assert found["letter"] == "B"
    assert (number.groups, dict(number.groupindex)) == (2, {"letter": 1})
    assert number.sub("-", "a1 b2") == "- -"
    assert regex(rb"\d").findall(b"1a2") == [b"1", b"2"]


def test_a_wrong_one_is_an_error_when_it_is_asked() -> None:
    wrong = regex("(")
    with pytest.raises(re.error):
        wrong.match("")


def test_a_cache_holds_no_long_text() -> None:
    """It answers all the same; what is short is asked once."""
    asked: list[str] = []

    @cached_if_short(8)
    def count(text: str, mark: str = "a") -> int:
        asked.append(text)
        return text.count(mark)

    long = "a" * 100_000
    assert [count("aba"), count("aba"), count(long), count(long), count("b", mark=long)] == [
        *(2, 2, 100_000, 100_000, 0)
    ]
    assert asked == ["aba", long, long, "b"]
