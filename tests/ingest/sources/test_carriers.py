"""Pasted logs: whatever carried the lines, and whatever carried that, the records are the same."""

import textwrap
from itertools import islice
from pathlib import Path

import pytest

from kubeledger.ingest.api import import_sources
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ingest.sources.envelope.forms import cutters_of
from kubeledger.ingest.sources.pasted import as_written
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.ingest.sources.times import carrier_time
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.record import Record
from kubeledger.model.units import parse_ts
from tests.ingest.feeding import DATA
from tests.ingest.sources.carrying import CARRIERS, DATED, Carrier, wrapped_at

STRUCTURED, FREE = "kubelet/startup-1.36.2.log", "kubelet/liveness-1.20.2.log"
_CHANGES_QUOTES = {"html", "typographic", "string", "element", "code", "code in a sentence"}
_NEXT_TO_KLOG = {"no-break": {"tabs"}}
"""Outer -> inner ones that it is not read around: it is known by the header that follows it."""


def log_of(name: str, count: int = 40) -> list[str]:
    """The first lines of a file of the tests' data."""
    with (DATA / name).open() as file:
        return [line.rstrip("\n") for line in islice(file, count)]


def told(lines: list[str], root: Path, year: int | None = 2024) -> list[Record]:
    """The records of a log, but for those about the import; it is one node's."""
    root.mkdir()
    (root / "pasted.txt").write_bytes("".join(f"{line}\n" for line in lines).encode())
    ledger = Ledger.open_or_create(root / "ledger")
    import_sources([str(root / "pasted.txt")], ledger, ImportOptions(year=year))
    (node,) = ledger.nodes()
    return [each for each in ledger.records(node) if not each.body.kind.startswith("ledger.")]


def same(records: list[Record], others: list[Record]) -> bool:
    """Two logs tell the same, at the same times."""
    left, right = (
        sorted((each.ts_ns, repr(each.body)) for each in side) for side in (records, others)
    )
    return left == right


@pytest.mark.parametrize("name", CARRIERS)
def test_a_carrier(tmp_path: Path, name: str) -> None:
    """Free text and structured lines, entries of several lines among them."""
    for number, log in enumerate((STRUCTURED, FREE)):
        lines = log_of(log)
        plain = told(lines, tmp_path / f"plain-{number}")
        assert len(plain) > 20
        assert same(told(CARRIERS[name](lines), tmp_path / f"carried-{number}"), plain)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "outer"), [*enumerate(CARRIERS)])
def test_carriers_carry_each_other(tmp_path: Path, number: int, outer: str) -> None:
    """Each around some of the others; what changes quotes cannot be told apart when it nests."""
    lines = log_of(STRUCTURED, 30)
    plain = told(lines, tmp_path / "plain")
    names = list(CARRIERS)
    for step in (1, 5, 11, 17):
        inner = names[(number + step) % len(names)]
        if not {inner, outer} <= _CHANGES_QUOTES and inner not in _NEXT_TO_KLOG.get(outer, ()):
            found = told(CARRIERS[outer](CARRIERS[inner](lines)), tmp_path / inner)
            assert same(found, plain), inner


@pytest.mark.parametrize("name", DATED)
def test_the_carriers_stamp_shows_the_year(tmp_path: Path, name: str) -> None:
    """Nothing else does; around other carriers, too."""
    lines = log_of(STRUCTURED, 12)
    plain = told(lines, tmp_path / "plain")
    for number, carrier in enumerate((DATED[name], CARRIERS["quote"])):
        lines = carrier(lines)
        assert same(told(lines, tmp_path / str(number), year=None), plain)


@pytest.mark.parametrize(
    ("stamp", "utc"),
    [
        ("Mon 2024-06-17 03:05:01 CEST", "2024-06-17T01:05:01Z"),
        ("2024-06-17T03:05:01.5+0530", "2024-06-16T21:35:01.5Z"),
        ("2024-06-17 03:05:01,25 -07:00", "2024-06-17T10:05:01.25Z"),
        ("Mon Jun 17 03:05:01 EST 2024", "2024-06-17T08:05:01Z"),
        ("1718593501.803095", "2024-06-17T03:05:01.803095Z"),
        ("2024/06/17 03:05:01.803Z", "2024-06-17T03:05:01.803Z"),
        ("17/Jun/2024:03:05:01 +0200", "2024-06-17T01:05:01Z"),
    ],
)
def test_zones_of_stamps(stamp: str, utc: str) -> None:
    """By number and by name; what a name that means several zones says is not known."""
    found = carrier_time(stamp.encode())
    assert found == (parse_ts(utc), True)
    assert carrier_time(b"Mon 2024-06-17 03:05:01 CST") == (parse_ts("2024-06-17T03:05:01Z"), False)
    assert carrier_time(b"Mon 2024-06-31 03:05:01 UTC") is None


def test_the_kubelets_clock_is_in_the_carriers_zone(tmp_path: Path) -> None:
    """Klog's stamps have none: they are as far ahead of UTC as the carrier's."""
    lines = log_of(STRUCTURED, 12)
    plain = told(lines, tmp_path / "plain")
    ahead = [line.replace(" UTC n ", " CEST n ") for line in DATED["short-full"](lines)]
    found = told(ahead, tmp_path / "ahead", year=None)
    hours = {(a.ts_ns - b.ts_ns) // 3_600_000_000_000 for a, b in zip(plain, found, strict=True)}
    assert hours == {2}


@pytest.mark.parametrize(
    ("stamp", "is_column"),
    [
        ("2024-06-17 03:05:01,296 ", False),
        ("2024-06-17T03:05:01,296+01:00 ", False),
        ("2024-06-17 03:05:01,296] ", False),
        ("2024-06-17 03:05:01,296,", True),
        ("2024-06-17 03:05:01,10.0.0.1,", True),
        ("2024-06-17T03:05:01Z,296 ", True),
    ],
)
def test_a_decimal_comma_ends_no_column(stamp: str, is_column: bool) -> None:
    """A text that begins with a time is a table if another column follows."""
    assert bool(cutters_of(f"{stamp}{log_of(STRUCTURED, 1)[0]}\n".encode())) == is_column


def _between_words(width: int) -> Carrier:
    def wrap(lines: list[str]) -> list[str]:
        return [
            part
            for line in lines
            for part in textwrap.wrap(
                line, width, break_long_words=False, break_on_hyphens=False
            )
            or [""]
        ]  # fmt: skip

    return wrap


@pytest.mark.parametrize("log", [STRUCTURED, FREE])
@pytest.mark.parametrize("carrier", [lambda lines: lines, CARRIERS["short"]])
@pytest.mark.parametrize("wrap", [wrapped_at(80), wrapped_at(133), _between_words(100)])
def test_wrapped_lines(tmp_path: Path, wrap: Carrier, carrier: Carrier, log: str) -> None:
    """As a terminal and as a mail wrap them, within the carrier's prefix, too."""
    lines = log_of(log)
    plain = told(lines, tmp_path / "plain")
    shown = wrap(carrier(lines))
    found = told(shown, tmp_path / "wrapped")
    assert same(found, plain)
    for record in found:
        for place in record.evidence:
            assert place.line is not None
            assert (place.text or "").startswith(shown[place.line - 1].rstrip())


def test_a_line_that_was_wrapped_once(tmp_path: Path) -> None:
    """In its quoted text, between two values, within a name and within a value."""
    lines = log_of(STRUCTURED, 12)
    plain = told(lines, tmp_path / "plain")
    broken = lines[-1]
    for place in ("container created", "podUID=", "UID=", "mentPath="):
        at = broken.find(place)
        if at > 0:
            shown = [*lines[:-1], broken[:at], broken[at:]]
            assert same(told(shown, tmp_path / place[:3]), plain)


_HEADER = "I1121 03:07:08.351045 1 a.go:1] "
_BLOCK = [f'{_HEADER}"KubeletConfiguration" configuration=<', *['  "maxPods": 110,'] * 30, " >"]


@pytest.mark.parametrize("indent", ["", "  ", "\t"])
def test_what_an_entry_of_many_lines_holds_does_not_hide_that_others_were_wrapped(
    tmp_path: Path, indent: str
) -> None:
    """Its lines have room for more, and none is joined; words keep the blanks between them."""
    text = "Container app failed its startup probe, and will be restarted by the kubelet"
    lines = [*_BLOCK, *(f'{_HEADER}"M" pod="default/{"p" * n}" message="{text}"' for n in range(9))]
    wraps = textwrap.TextWrapper(80, subsequent_indent=indent, expand_tabs=False).wrap
    shown = [part for line in lines for part in wraps(line) or [line]]
    (tmp_path / "kubelet.log").write_text("".join(f"{line}\n" for line in shown))
    found = b"".join(as_written(SourceFile("kubelet.log", tmp_path / "kubelet.log")).chunks())
    assert found.decode().splitlines() == lines


def test_a_quoted_log_has_its_blocks_again(tmp_path: Path) -> None:
    """As an answer to a mail quotes it: all lines, not those alone that begin an entry."""
    (tmp_path / "kubelet.log").write_text("".join(f"> {line}\n" for line in _BLOCK))
    found = b"".join(as_written(SourceFile("kubelet.log", tmp_path / "kubelet.log")).chunks())
    assert found.decode().splitlines() == _BLOCK


def test_a_log_as_it_was_written_is_left_alone(tmp_path: Path) -> None:
    """Whatever its lines hold: blocks, escapes, lines that another program wrote."""
    for log in (STRUCTURED, FREE, "devices/v1.20.2.log", "settings/kubelet-1.36.2.log"):
        source = SourceFile("kubelet.log", DATA / log)
        assert as_written(source) is source
    text = 'I1121 03:07:08.351045 1 a.go:1] "M" err=<\n\t"a &quot;\n >\nplain `text`\n'
    (tmp_path / "kubelet.log").write_text(text)
    source = SourceFile("kubelet.log", tmp_path / "kubelet.log")
    assert as_written(source) is source
