"""Stamps to time: years, zones, steps back."""

from __future__ import annotations

import pytest

from kubeledger.importers.klog_time import Clock, exact_json_ns
from kubeledger.units import format_ts, parse_ts


def read(clock: Clock, *stamps: str) -> list[str]:
    """Times of stamps, as text."""
    return [format_ts(clock.read(stamp.encode())) for stamp in stamps]


def test_year_and_microseconds() -> None:
    """The year comes from outside; six decimals are kept."""
    assert read(Clock(2026), "1121 02:52:41.296376") == ["2026-11-21T02:52:41.296376Z"]


def test_zone() -> None:
    """Stamps are the node's local time."""
    offset_ns = 8 * 3600 * 10**9
    assert read(Clock(2021, offset_ns), "1215 19:22:59.000000") == ["2021-12-15T11:22:59Z"]


def test_december_to_january() -> None:
    """The year rolls over, and back for a late line."""
    times = read(
        Clock(2025),
        "1231 23:59:59.900000",
        "0101 00:00:00.100000",
        "1231 23:59:59.950000",
        "0101 00:00:00.200000",
    )
    assert [text[:4] for text in times] == ["2025", "2026", "2025", "2026"]


@pytest.mark.parametrize(
    ("stamps", "step"),
    [
        (["0102 10:00:10.000000", "0102 10:00:09.500000"], None),  # goroutines overtake
        (["0102 10:00:10.000000", "0102 10:00:05.000000", "0102 10:00:11.000000"], None),
        (
            ["0102 10:00:10.000000", "0102 10:00:05.000000", "0102 10:00:06.000000"],
            ("2026-01-02T10:00:10Z", "2026-01-02T10:00:05Z"),
        ),
        (  # nothing follows that could tell it from a late line
            ["0102 10:00:10.000000", "0102 10:00:05.000000"],
            ("2026-01-02T10:00:10Z", "2026-01-02T10:00:05Z"),
        ),
    ],
)
def test_steps_back(stamps: list[str], step: tuple[str, str] | None) -> None:
    """More than a second back, and staying there, is a step; told once."""
    clock = Clock(2026)
    read(clock, *stamps)
    clock.finish()
    expected = (parse_ts(step[0]), parse_ts(step[1])) if step else None
    assert clock.take_step() == expected
    assert clock.take_step() is None


@pytest.mark.parametrize("stamp", ["1332 00:00:00.000000", "0229 00:00:00.000000"])
def test_impossible_days(stamp: str) -> None:
    """A stamp that is no time is refused."""
    with pytest.raises(ValueError, match=r"."):
        Clock(2025).read(stamp.encode())


@pytest.mark.parametrize(
    ("digits", "time"),
    [
        (b"1700000000000.123", "2023-11-14T22:13:20.000123Z"),
        (b"1795229561296.376", "2026-11-21T02:52:41.296376Z"),
        (b"1700000000000", "2023-11-14T22:13:20Z"),
        (b"1580306777.04728", "2020-01-29T14:06:17.04728Z"),  # seconds, in old versions
        (b"1.700000000000123e+12", "2023-11-14T22:13:20.000123Z"),
    ],
)
def test_json_times_are_exact(digits: bytes, time: str) -> None:
    """No floating point number comes between the digits and the nanoseconds."""
    assert exact_json_ns(digits) == parse_ts(time)
