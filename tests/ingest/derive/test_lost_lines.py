"""Beats that a log lost, and those that a kubelet never made."""

from collections.abc import Callable, Iterable

import pytest

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.derive.tick_grid import LostLinesAssembler
from kubeledger.model.bodies.node import LogThinned
from kubeledger.model.units import parse_ts
from tests.ingest.pieces import YEAR, feed_log, klog

US = 1_000_000
Line = tuple[int, str, str]
"""Microseconds, file, message."""


def old(count: int = 100, begin_us: int = 0) -> list[Line]:
    """Beats of a kubelet 1.20, with other lines between, and the eviction manager's rounds."""
    lines: list[Line] = []
    for beat in range(count):
        at_us = begin_us + beat * 2 * US + (beat * 7919) % 1500
        lines.append((at_us, "kubelet.go", "SyncLoop (housekeeping)"))
        lines += [(at_us + n * 150_000, "labels.go", "Label not found") for n in range(1, 10)]
    for turn in range(count // 5):
        at_us = begin_us + turn * (10 * US + 20_000) + 333_000
        lines.append((at_us, "eviction_manager.go", "eviction manager: synchronize housekeeping"))
        lines.append(
            (at_us + 15_000, "eviction_manager.go", "eviction manager: no resources are starved")
        )
    return sorted(lines)


def new(count: int = 100) -> list[Line]:
    """Beats of a kubelet 1.36: structured, each with its end."""
    lines = []
    for at_us, file, message in old(count):
        text = message.replace("eviction m", "Eviction m")
        lines.append((at_us, file, f'"{text}"'))
        if message == "SyncLoop (housekeeping)":
            lines.append((at_us + 3000, file, f'"{text} end" duration="3ms"'))
    return sorted(lines)


def text(lines: Iterable[Line], pid: int = 8337) -> str:
    """As klog writes them."""
    return "".join(
        klog(
            file,
            message,
            pid=pid,
            time=f"02:{at_us // 60 // US:02}:{at_us // US % 60:02}.{at_us % US:06}",
        )
        for at_us, file, message in lines
    )


def thinned(log: str, end: str = "02:00:00") -> list[LogThinned]:
    assembler = LostLinesAssembler(Registers(BundleContext(node="n")))
    facts = [*feed_log(assembler, log), *assembler.finish(parse_ts(f"{YEAR}-11-21T{end}Z"))]
    assert all(fact.evidence for fact in facts)
    return [fact.body for fact in facts if isinstance(fact.body, LogThinned)]


def without(lines: list[Line], message: str, *numbers: int) -> list[Line]:
    found = [line for line in lines if line[2].startswith(message)]
    gone = {found[number] for number in numbers}
    return [line for line in lines if line not in gone]


BEGIN, END = "SyncLoop (housekeeping)", '"SyncLoop (housekeeping) end'
ROUND = "eviction manager: sync"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (without(old(), BEGIN, 40), {"housekeeping": 1}),
        (without(old(), BEGIN, 40, 41), {"housekeeping": 2}),
        (without(old(), BEGIN, 20, 70), {"housekeeping": 2}),
        (without(old(), ROUND, 7), {"eviction manager": 1}),
        (without(new(), f'"{BEGIN}"', 40), {"housekeeping": 1}),
        (without(new(), END, 40), {"end of housekeeping": 1}),
        (
            without(without(new(), f'"{BEGIN}"', 40), END, 40, 60),
            {"housekeeping": 1, "end of housekeeping": 1},
        ),
    ],
)
def test_single_lines_are_missing(lines: list[Line], expected: dict[str, int]) -> None:
    (reported,) = thinned(text(lines))
    assert reported.beats == expected
    assert reported.beats_missing == sum(expected.values())
    assert reported.beats_expected >= 100
    assert reported.from_ts_ns < reported.to_ts_ns


def test_a_call_that_the_runtime_never_answers_is_no_loss() -> None:
    """It ends after whole minutes, on the grid; the rest of the log goes on."""
    lines = [line for line in old() if line[2] != BEGIN or not 40 * US + 2000 < line[0] < 160 * US]
    assert thinned(text(lines)) == []


def hole(lines: list[Line], *spans_s: tuple[float, float]) -> list[Line]:
    """Lines without all of some times."""
    return [line for line in lines if not any(a * US <= line[0] < b * US for a, b in spans_s)]


@pytest.mark.parametrize("log", [old, new])
def test_a_time_without_any_line_is_a_hole_and_no_thinning(log: Callable[[], list[Line]]) -> None:
    """Once; a log that is cut off again and again is one that loses lines."""
    assert thinned(text(hole(log(), (41.5, 72.5)))) == []
    (reported,) = thinned(text(hole(log(), (41.5, 60.5))))  # too short to miss two rounds of it
    assert reported.beats["housekeeping"] == 10
    (reported,) = thinned(text(hole(log(), (31.5, 62.5), (91.5, 112.5), (141.5, 162.5))))
    assert reported.beats["housekeeping"] > 30


@pytest.mark.parametrize("log", [old, new])
def test_lines_that_never_come_at_their_period_are_missing(
    log: Callable[[], list[Line]],
) -> None:
    """A store kept one of all that say the same, or one a minute; a short process has few."""
    seen: set[tuple[str, int]] = set()
    for period_s in (10_000, 60):
        seen, left = set(), []
        for line in log():
            key = line[2].partition(" duration")[0], line[0] // (period_s * US)
            left += [] if key in seen else [line]
            seen.add(key)
        (reported,) = thinned(text(left), "02:03:20")
        assert reported.beats_missing > 10
    assert thinned(text(left[:3]), "02:00:50") == []


def test_a_rate_limit_leaves_steps_on_the_grid() -> None:
    """Again and again, off the minute; a slow handler comes off the grid."""
    limited = [line for line in old() if line[2] != BEGIN or line[0] % (50 * US) < 7 * US]
    (reported,) = thinned(text(limited))
    assert reported.beats == {"housekeeping": 63}
    slow = [
        (at_us + at_us // (50 * US) * 177_000, file, message) for at_us, file, message in limited
    ]
    assert thinned(text(slow)) == []
