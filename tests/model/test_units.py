"""Times and durations: named rows and properties."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.model.patterns import cached_if_short, regex
from kubeledger.model.units import (
    NS_PER_S,
    format_go_duration,
    format_ts,
    parse_go_duration,
    parse_go_time,
    parse_size,
    parse_ts,
    whole_number,
)


@pytest.mark.parametrize(
    ("text", "ts_ns"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:59:59.5Z", -NS_PER_S // 2),
        ("2026-11-21T02:54:06.084219Z", 1_795_229_646_084_219_000),
        ("2026-11-21 02:54:06", 1_795_229_646_000_000_000),
    ],
)
def test_parse_ts(text: str, ts_ns: int) -> None:
    """RFC 3339 with zones, fractions and times before the epoch."""
    assert parse_ts(text) == ts_ns


@pytest.mark.parametrize(
    "text",
    [
        "", "yesterday", "2026-11-21", "2026-13-01T00:00:00Z", "1Z",
        "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-00:01",
    ],
)  # fmt: skip
def test_parse_ts_refuses(text: str) -> None:
    with pytest.raises(ValueError, match=r"time|month"):
        parse_ts(text)


def test_parse_go_time_drops_the_monotonic_part() -> None:
    """Go prints the zone twice and its monotonic clock."""
    text = "2026-11-21 02:52:42.075004786 +0000 UTC m=+0.856161928"
    assert format_ts(parse_go_time(text)) == "2026-11-21T02:52:42.075004786Z"


@given(st.integers(min_value=-(10**18), max_value=4 * 10**18))
def test_format_round_trip(ts_ns: int) -> None:
    """What is written is read back exactly."""
    assert parse_ts(format_ts(ts_ns)) == ts_ns


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("0", 0),
        ("0s", 0),
        ("2m0s", 120 * NS_PER_S),
        ("1h30m", 5400 * NS_PER_S),
        ("1.5h", 5400 * NS_PER_S),
        ("-1.5s", -1_500_000_000),
        ("+3ms", 3_000_000),
        ("1µs2ns", 1_002),
        (".5s", NS_PER_S // 2),
    ],
)
def test_parse_go_duration(text: str, duration_ns: int) -> None:
    """Every unit, fractions and signs, exactly."""
    assert parse_go_duration(text) == duration_ns


@pytest.mark.parametrize("text", ["", "-", "3", "1x", "s", "1 s", "1s2", "--1s"])
def test_parse_go_duration_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_go_duration(text)


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (10**7, "10ms"),
        (90 * NS_PER_S, "1m30s"),
        (24 * 3600 * NS_PER_S, "24h0m0s"),
        (-1_500_000_000, "-1.5s"),
    ],
)
def test_format_go_duration(duration_ns: int, text: str) -> None:
    """Go leaves out leading units that are zero, never the seconds."""
    assert format_go_duration(duration_ns) == text
    assert parse_go_duration(text) == duration_ns


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-7", -7),
        ("9" * 19, 10**19 - 1),
        ("0" * 19 + "34", 34),
        ("9" * 20, None),
        ("", None),
        ("-", None),
        ("+1", None),
        ("1_0", None),
        (" 1", None),
        ("1\n", None),
        ("\u00b2", None),
        ("\u0661", None),
        (1, None),
        (None, None),
    ],
)
def test_whole_number(text: object, number: int | None) -> None:
    """Plain digits only, and no more than Python reads at once."""
    assert whole_number(text) == number


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1000", 1000),
        ("500MB", 500_000_000),
        ("20GiB", 20 << 30),
        (" 1.5 gib ", 3 << 29),
        ("0.25k", 250),
        ("1.T", 10**12),
        ("7b", 7),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1GB", "1e3", "1 000", "1GB2", "1PB", "٣MB", "9" * 16])
def test_what_is_no_size(text: str) -> None:
    """Refused, whatever it looks like."""
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


# -- Regular expressions that are compiled later ---------------------------------------------------


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
