"""Logs whose lines stand in another order than that of time."""

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from kubeledger.ingest.api import import_sources
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ingest.sources import pasted as newest_first_logs
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.bodies.node import ClockStepped
from kubeledger.model.record import Record
from tests.marks import nightly, slow
from tests.recordings import extract

OPTIONS = ImportOptions(node="node-b", kubelet_version="1.36.2", year=2026)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    root = extract("node-b", tmp_path_factory.mktemp("node"))
    return (root / "kubelet.log").read_bytes().splitlines(keepends=True)


@pytest.fixture(scope="module")
def in_order(lines: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    return reported(imported(lines, tmp_path_factory.mktemp("whole")))


def imported(lines: list[bytes], directory: Path) -> Ledger:
    (directory / "kubelet.log").write_bytes(b"".join(lines))
    ledger = Ledger.create(directory / "ledger")
    import_sources([str(directory / "kubelet.log")], ledger, OPTIONS)
    return ledger


def reported(ledger: Ledger) -> list[object]:
    """Facts in the order of their records."""
    return [(r.ts_ns, r.kind, r.body) for r in of_node(ledger)]


def of_node(ledger: Ledger) -> Iterator[Record]:
    """Records but for those of the ledger itself."""
    return (r for r in ledger.records() if not r.kind.startswith("ledger."))


def shuffled(lines: list[bytes], seed: int) -> list[bytes]:
    """The lines in a few pieces, in any order but their own."""
    dice = random.Random(seed)
    cuts = sorted(dice.sample(range(50, len(lines) - 50), dice.randrange(1, 7)))
    pieces = [lines[begin:end] for begin, end in pairwise([0, *cuts, len(lines)])]
    ours = pieces[:]
    while ours == pieces:
        dice.shuffle(ours)
    return [line for piece in ours for line in piece]


def halves_swapped(lines: list[bytes]) -> list[bytes]:
    """And the last line has no end, wherever it stands then."""
    middle = len(lines) // 2
    return [*lines[middle:], *lines[: middle - 1], lines[middle - 1].rstrip(b"\n")]


def newest_first(lines: list[bytes]) -> list[bytes]:
    """As ``cat kubelet.log*`` gives rotated ones."""
    fifth = len(lines) // 5 + 1
    return [line for at in (4, 3, 2, 1, 0) for line in lines[at * fifth : (at + 1) * fifth]]


def entries(lines: list[bytes]) -> list[list[bytes]]:
    found: list[list[bytes]] = []
    for line in lines:
        if line[:1] in b"IWEF" and line[1:5].isdigit():
            found.append([])
        found[-1].append(line)
    return found


def by_severity(lines: list[bytes]) -> list[bytes]:
    """As ``sort`` gives them."""
    return [line for each in sorted(entries(lines), key=lambda each: each[0][:1]) for line in each]


def errors_late(lines: list[bytes]) -> list[bytes]:
    """Errors come by a stream of their own, which is 300 entries behind."""
    at = [(i + 300 * (each[0][:1] == b"E"), each) for i, each in enumerate(entries(lines))]
    return [line for _, each in sorted(at, key=lambda pair: pair[0]) for line in each]


@pytest.mark.parametrize(
    "order", ["late", *slow("sorted", 1), *nightly("halves", "newest", "turned", 2, 3)]
)
def test_a_log_in_another_order_tells_the_same(
    order: str | int,
    lines: list[bytes],
    in_order: list[object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each fact at its time, and found again where its line stands in the file."""
    if isinstance(order, int):
        ours = shuffled(lines, order)
    elif order == "turned":
        monkeypatch.setattr(newest_first_logs, "_WINDOW", 1_000_003)
        ours = [*lines[:0:-1], lines[0].rstrip(b"\n")]
    else:
        change = {"halves": halves_swapped, "newest": newest_first, "sorted": by_severity}
        ours = change.get(order, errors_late)(lines)
    ledger = imported(ours, tmp_path)
    assert reported(ledger) == in_order
    findings = [r.body for r in ledger.records(kinds={"ledger.FindingReported"})]
    assert "not_in_order" in {getattr(body, "finding", None) for body in findings}
    starts = [0]
    for line in ours:
        starts.append(starts[-1] + len(line))
    for record in of_node(ledger):
        for place in record.evidence:
            assert place.line is not None
            assert place.offset == starts[place.line - 1]
            assert ours[place.line - 1].decode().startswith((place.text or "")[:40])


@pytest.mark.parametrize("back_s", [5, 600, *nightly(2, 30)])
def test_a_clock_that_was_set_back_is_no_other_order(
    back_s: int, lines: list[bytes], tmp_path: Path
) -> None:
    """Times before and behind the step overlap, or nothing joins them."""
    third = len(lines) // 3
    ours = [*lines[:third], *(earlier(line, back_s) for line in lines[third:])]
    steps = [r for r in imported(ours, tmp_path).records() if isinstance(r.body, ClockStepped)]
    assert len(steps) == 1


def earlier(line: bytes, seconds: int) -> bytes:
    """The line with a stamp of that much before, if it has one."""
    if line[:1] not in b"IWEF" or not line[1:5].isdigit():
        return line
    hours, minutes, rest = int(line[6:8]), int(line[9:11]), float(line[12:21])
    left = hours * 3600 + minutes * 60 + rest - seconds
    stamp = f"{int(left // 3600):02}:{int(left // 60 % 60):02}:{left % 60:09.6f}"
    return line[:6] + stamp.encode() + line[21:]


@pytest.mark.parametrize("carrier", ["", "Nov 21 {} n kubelet[8337]: "])
def test_one_line_between_two_steps_of_the_clock(carrier: str, tmp_path: Path) -> None:
    """A machine slept, its clock went on, and was put right: one line came between."""
    stamps = ["10:00:00", "10:00:01", "10:00:02", "10:03:50", *["10:03:05"] * 5, "10:03:06"]
    letters = "IEIEEEEEEE"
    ours = [
        f"{carrier.format(stamp)}{letter}1121 {stamp}.{n:06} 8337 kubelet.go:1] text\n".encode()
        for n, (stamp, letter) in enumerate(zip(stamps, letters, strict=True), 1)
    ]
    found = [r.body for r in imported(ours, tmp_path).records()]
    (step,) = (body for body in found if isinstance(body, ClockStepped))
    assert step.from_ts_ns - step.to_ts_ns == 45 * 10**9 - 1000
    findings = {body.finding for body in found if isinstance(body, FindingReported)}
    assert not findings & {"not_in_order", "lines_disagree"}


def test_a_carrier_without_a_year_says_what_was_late(tmp_path: Path) -> None:
    """Its stamps do not go back over lines that goroutines logged late."""
    stamps = [(n, n) for n in range(10, 20)] + [(19, 3), (19, 4), (19, 4), (20, 20), (21, 21)]
    ours = [
        f"Nov 21 10:00:{at} n kubelet[8337]: I1121 10:00:{own:02}.{n:06} 8337 kubelet.go:1] text\n"
        for n, (at, own) in enumerate(stamps)
    ]
    found = imported([line.encode() for line in ours], tmp_path).records()
    assert not any(isinstance(r.body, ClockStepped) for r in found)
