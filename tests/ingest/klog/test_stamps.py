"""Stamps to time: years, zones, steps back."""

from functools import partial

import pytest

from kubeledger.ingest.klog.stamps import Clock, exact_json_ns
from kubeledger.model.units import format_ts, parse_ts


def _as_is(at_ns: int | None) -> int | None:
    return at_ns


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
    ("carried_s", "is_step"),
    [
        ((14.0, 14.0), False),  # both were written late
        ((5.1, 6.1), True),  # what carried them goes by the clock that was set back
        ((3_614.0, 3_615.0), True),  # it goes by another zone
        ((None, None), True),
    ],
)
def test_a_carrier_decides_whether_the_clock_moved(
    carried_s: tuple[float | None, float | None], is_step: bool
) -> None:
    """Lines of an overloaded node stand seconds after later ones."""
    clock = Clock(2026)
    read(clock, "0102 10:00:10.000000")
    begin_ns = parse_ts("2026-01-02T10:00:00Z")
    for second, carried in zip((5, 6), carried_s, strict=True):
        at_ns = None if carried is None else begin_ns + round(carried * 1e9)
        clock.read(f"0102 10:00:{second:02}.000000".encode(), partial(_as_is, at_ns))
    clock.finish()
    assert (clock.take_step() is not None) == is_step
    assert clock.take_doubt() is None


@pytest.mark.parametrize(
    ("up_s", "carried_s", "is_step"),
    [
        (10.2, 10.2, False),  # the line was late, and time goes on
        (10.2, 15.2, True),  # all have been as late since: the clock was set back
        (10.2, 11.5, False),  # so late the carrier of a slow node is itself
        (10.2, None, False),
    ],
)
def test_a_carrier_by_the_clock_of_another_machine(
    up_s: float, carried_s: float | None, is_step: bool
) -> None:
    """It shows by the line that comes up whether those before were late."""
    clock, begin_ns = Clock(2026), parse_ts("2026-01-02T10:00:00Z")
    lines = (10.0, 10.0), (5.0, 10.0), (5.1, 10.1), (up_s, carried_s)
    for second, carried in lines:
        at_ns = None if carried is None else begin_ns + round(carried * 1e9)
        clock.read(f"0102 10:00:{second:09.6f}".encode(), partial(_as_is, at_ns))
    ends = parse_ts("2026-01-02T10:00:10Z"), parse_ts("2026-01-02T10:00:05Z")
    assert clock.take_step() == (ends if is_step else None)


@pytest.mark.parametrize(
    ("stamps", "step"),
    [
        (["0102 10:00:10.000000", "0102 10:00:09.500000"], None),  # goroutines overtake
        (["0102 10:00:10.000000", "0102 10:00:05.000000", "0102 10:00:11.000000"], None),
        (
            ["0102 10:00:10.000000", "0102 10:00:05.000000", "0102 10:00:06.000000"],
            ("2026-01-02T10:00:10Z", "2026-01-02T10:00:05Z"),
        ),
        (  # by less than a second: nothing is as late as before until time has come up
            ["0102 10:00:09.900000", "0102 10:00:10.000000"]
            + [f"0102 10:00:09.{n:06}" for n in range(200_000, 1_000_000, 50_000)]
            + ["0102 10:00:10.010000"],
            ("2026-01-02T10:00:10Z", "2026-01-02T10:00:09.2Z"),
        ),
        (  # so many are late on a node that is slow, but not in order, or not for so long
            ["0102 10:00:09.900000", "0102 10:00:10.000000"]
            + [f"0102 10:00:09.{n:06}" for n in range(200_000, 500_000, 50_000)]
            + ["0102 10:00:10.010000"],
            None,
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


def stamps_of(*seconds: float) -> list[str]:
    """Stamps so many seconds after ten o'clock."""
    return [f"0102 10:{int(s) // 60:02}:{s % 60:09.6f}" for s in seconds]


def doubts(*seconds: float) -> tuple[list[list[float]], bool]:
    """What is said of each wrong stamp, and whether the clock was set back."""
    clock, found = Clock(2026), []
    ten = parse_ts("2026-01-02T10:00:00Z")
    for stamp in stamps_of(*seconds):
        read(clock, stamp)
        doubt = clock.take_doubt()
        if doubt is not None:
            found.append([round((ns - ten) / 1e9, 3) for ns in doubt])
    clock.finish()
    return found, clock.take_step() is not None


@pytest.mark.parametrize(
    "seconds",
    [
        [10, 10.1, 10.9, 10.2, 10.3, 10.4, 10.5],  # goroutines race for the lock
        [10, 10.1, 15, 10.2, 15.1, 15.2],  # late: it waited while the log stood still
        [10, 10.1, 15, 10.2, 10.3, 10.4, 15.1],  # several waited
        [10, 15, 11, 16],  # neighbours swapped by who sends them
        [5, 10, 11],
        [2710, 2710.1, 10.2, 2710.3, 2710.4],  # by another zone
        [10, 10.1, 8.5, 10.2],  # one, on a node that is slow
        [10, 10.1, 8.5, 10.2, 10.3, 7, 7.1, 7.1, 7.2, 7.3, 10.4],  # and then several
    ],
)
def test_lines_that_are_late(seconds: list[float]) -> None:
    assert doubts(*seconds) == ([], False)


@pytest.mark.parametrize("stamp", ["1332 00:00:00.000000", "0229 00:00:00.000000"])
def test_impossible_days(stamp: str) -> None:
    """A stamp that is not a valid time is refused."""
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
