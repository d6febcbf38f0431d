"""Journald's entries, from real journal files, by the library and by the command."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubeledger.ingest.sources.libsystemd import Journal, Matches, is_installed
from kubeledger.ingest.sources.times import Stamp, kernel_line
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import NS_PER_S, parse_ts
from kubeledger.record.observations import Gap, Lines, Observation
from kubeledger.record.sources import journal
from kubeledger.record.sources.journal import (
    KERNEL,
    Entries,
    JournalCommand,
    JournalSource,
    kubelet_stream,
)
from tests.record.journals import entry, write_journal
from tests.tools import missing, tool
from tests.waiting import until

FIRST_NS = parse_ts("2026-11-21T02:52:01Z")
KUBELET = kubelet_stream()
Reader = Callable[[Path, Matches], Entries]


@pytest.fixture(params=[Journal, JournalCommand])
def reader(request: pytest.FixtureRequest) -> Reader:
    """Both read the same."""
    if request.param is Journal and not is_installed():
        missing("libsystemd")
    if request.param is JournalCommand:
        tool("journalctl")
    chosen: Reader = request.param
    return chosen


class Opened:
    """Sources of one directory, closed with the test."""

    def __init__(self, reader: Reader, directory: Path) -> None:
        self._reader = reader
        self._directory = directory
        self._sources: list[JournalSource] = []

    def source(
        self, cursor: str | None = None, stream: journal.JournalStream = KUBELET
    ) -> JournalSource:
        opened = JournalSource(
            lambda matches: self._reader(self._directory, matches), stream, cursor, FIRST_NS
        )
        self._sources.append(opened)
        return opened

    def close(self) -> None:
        for source in self._sources:
            source.close()


@pytest.fixture
def opened(reader: Reader, tmp_path: Path) -> Iterator[Opened]:
    write_journal(tmp_path / "system.journal", [entry(0, "first")])
    sources = Opened(reader, tmp_path)
    yield sources
    sources.close()


def text(observations: list[Observation]) -> list[str]:
    """The lines of a batch, without what journald puts before them."""
    (lines,) = (each for each in observations if isinstance(each, Lines))
    return [line.partition("]: ")[2] for line in lines.data.decode().splitlines()]


def polled(source: JournalSource, count: int = 1, now_ns: int = FIRST_NS) -> list[Observation]:
    """What has come, when it is so many lines: the command, and inotify, take a moment."""
    found: list[Observation] = []

    def enough() -> bool:
        found.extend(source.poll(now_ns))
        return sum(each.data.count(b"\n") for each in found if isinstance(each, Lines)) >= count

    until(enough)
    return found


def test_lines_are_in_the_form_of_short_iso_precise(opened: Opened, tmp_path: Path) -> None:
    """Other units are left out; each line of a message is one; bytes that are no text stay."""
    write_journal(
        tmp_path / "system.journal",
        [
            entry(1, "sshd", _SYSTEMD_UNIT="ssh.service", SYSLOG_IDENTIFIER="sshd"),
            entry(2, "two\nlines\n", _SOURCE_REALTIME_TIMESTAMP="1795229522999999"),
            entry(3, b"\xff\x00", _SYSTEMD_UNIT="other.service", SYSLOG_IDENTIFIER="hyperkube"),
            entry(
                4,
                "Stopping kubelet...",
                **{"_SYSTEMD_UNIT": "init.scope", "SYSLOG_IDENTIFIER": "systemd", "_PID": "1"},
                UNIT="kubelet.service",
            ),
        ],
    )
    given = polled(opened.source(), 5)
    (lines,) = given
    assert isinstance(lines, Lines)
    assert lines.stream == "kubelet.log"
    assert lines.data == (
        b"2026-11-21T02:52:01.000000+0000 node-a kubelet[8337]: first\n"
        b"2026-11-21T02:52:02.999999+0000 node-a kubelet[8337]: two\n"
        b"2026-11-21T02:52:02.999999+0000 node-a kubelet[8337]: lines\n"
        b"2026-11-21T02:52:04.000000+0000 node-a hyperkube[8337]: \xff\x00\n"
        b"2026-11-21T02:52:05.000000+0000 node-a systemd[1]: Stopping kubelet...\n"
    )


def test_it_goes_on_after_its_cursor(opened: Opened, tmp_path: Path) -> None:
    """Nothing is left out, nothing comes twice; over a rotation, too."""
    source = opened.source()
    assert text(polled(source)) == ["first"]
    write_journal(tmp_path / "system.journal", [entry(1, "second")])
    later = polled(source)
    assert text(later) == ["second"]
    (lines,) = later
    assert isinstance(lines, Lines)
    (tmp_path / "system.journal").rename(tmp_path / "system@0001.journal")
    write_journal(tmp_path / "system.journal", [entry(2, "third")])
    assert text(polled(source)) == ["third"]
    assert text(polled(opened.source(lines.cursor))) == ["third"]


def test_a_batch_has_a_size(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left comes with the next poll."""
    monkeypatch.setattr(journal, "POLL_BYTES", 100)
    write_journal(tmp_path / "system.journal", [entry(n, f"line {n}") for n in range(1, 6)])
    source = opened.source()
    batches = [each for each in polled(source, 6) if isinstance(each, Lines)]
    assert [batch.data.count(b"\n") for batch in batches] == [2, 2, 2]
    assert len({batch.cursor for batch in batches}) == 3
    assert text(polled(opened.source(batches[1].cursor), 2)) == ["line 4", "line 5"]


def test_suppressed_messages_are_a_gap(opened: Opened, tmp_path: Path) -> None:
    """Of this unit's, between the lines around it."""
    told = {"_SYSTEMD_UNIT": "systemd-journald.service", "SYSLOG_IDENTIFIER": "systemd-journald"}
    told["MESSAGE_ID"] = "a596d6fe7bfa4994828e72309e95d61e"
    write_journal(
        tmp_path / "system.journal",
        [
            entry(3, "Suppressed 7 messages from ssh.service", **told),
            entry(4, "Suppressed 412 messages from kubelet.service", **told),
            entry(5, "after"),
        ],
    )
    gap, lines = polled(opened.source(), 2)
    assert gap == Gap(
        "kubelet.log",
        "journald suppressed 412 messages, which were too many",
        FIRST_NS,
        FIRST_NS + 5 * NS_PER_S,
    )
    assert text([lines]) == ["first", "after"]


def test_a_notice_is_not_lost_between_batches(opened: Opened, tmp_path: Path) -> None:
    """It waits for the line whose cursor covers it."""
    source = opened.source()
    (first,) = polled(source)
    assert isinstance(first, Lines)
    told = {"SYSLOG_IDENTIFIER": "systemd-journald", "OBJECT_SYSTEMD_UNIT": "kubelet.service"}
    told |= {"MESSAGE_ID": "a596d6fe7bfa4994828e72309e95d61e", "_SYSTEMD_UNIT": "x.service"}
    write_journal(tmp_path / "system.journal", [entry(1, "Suppressed 2 messages from /x", **told)])
    assert not list(source.poll(FIRST_NS))
    write_journal(tmp_path / "system.journal", [entry(2, "after")])
    for each in (source, opened.source(first.cursor)):
        gap, lines = polled(each)
        assert isinstance(gap, Gap)
        assert (gap.since_ns, gap.until_ns) == (FIRST_NS, FIRST_NS + 2 * NS_PER_S)
        assert text([lines]) == ["after"]


def test_a_cursor_that_is_gone_is_a_gap(opened: Opened, tmp_path: Path) -> None:
    """Its files were removed to make room; reading goes on with the first entry there is."""
    (lines,) = polled(opened.source())
    assert isinstance(lines, Lines)
    (tmp_path / "system.journal").unlink()
    write_journal(tmp_path / "system.journal", [entry(9, "later")])
    gap, later = polled(opened.source(lines.cursor))
    assert gap == Gap(
        "kubelet.log",
        "the last line read before is no longer in the journal",
        FIRST_NS,
        FIRST_NS + 9 * NS_PER_S,
    )
    assert text([later]) == ["later"]


@pytest.mark.parametrize("pause_ns", [0, 60 * NS_PER_S])
def test_what_is_vacuumed_while_it_is_read_is_a_gap(
    pause_ns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With both ends; a file that goes after the last look at the directory is read to its end."""
    if not is_installed():
        missing("libsystemd")
    monkeypatch.setattr(journal, "POLL_BYTES", 100)
    for number in range(4):
        first = 10 * number
        entries = [entry(n, f"line {n}") for n in range(first, first + 10)]
        write_journal(tmp_path / f"system@{number}.journal", entries)
    sources = Opened(Journal, tmp_path)
    source = sources.source()
    assert text(polled(source, 2)) == ["line 0", "line 1"]
    for number in (0, 1):
        (tmp_path / f"system@{number}.journal").unlink()
    gap, lines = polled(source, 2, FIRST_NS + pause_ns)
    assert gap == Gap(
        "kubelet.log",
        "the last line read before is no longer in the journal",
        FIRST_NS + 1 * NS_PER_S,
        FIRST_NS + 20 * NS_PER_S,
    )
    assert text([lines]) == ["line 20", "line 21"]
    assert not [each for each in polled(source, 18, FIRST_NS + pause_ns) if isinstance(each, Gap)]
    sources.close()


def test_a_unit_that_never_shows_is_said(opened: Opened, tmp_path: Path) -> None:
    """After a minute, once; it ends with the first line."""
    stream = kubelet_stream(("rke2-agent.service",))
    matches = [["_SYSTEMD_UNIT=rke2-agent.service"]]  # not by the program's name
    quiet = opened.source(stream=stream._replace(matches=matches))
    assert not list(quiet.poll(FIRST_NS))
    assert not list(quiet.poll(FIRST_NS + 59 * NS_PER_S))
    (gap,) = quiet.poll(FIRST_NS + 60 * NS_PER_S)
    assert isinstance(gap, Gap)
    assert gap.reason.startswith("no entry of rke2-agent.service for 60 seconds: ")
    assert not list(quiet.poll(FIRST_NS + 61 * NS_PER_S))
    write_journal(
        tmp_path / "system.journal", [entry(70, "there", _SYSTEMD_UNIT="rke2-agent.service")]
    )
    over, lines = polled(quiet)
    assert over == Gap(gap.stream, gap.reason, None, FIRST_NS + 70 * NS_PER_S)
    assert text([lines]) == ["there"]


def test_the_kernels_lines(opened: Opened, tmp_path: Path) -> None:
    """In the form that an import reads as a kernel log."""
    kernel = {
        "_TRANSPORT": "kernel",
        "SYSLOG_IDENTIFIER": "kernel",
        "_SYSTEMD_UNIT": "",
        "_PID": "",
    }
    missed = {**kernel, "SYSLOG_IDENTIFIER": "systemd-journald", "_TRANSPORT": "driver"}
    missed["MESSAGE_ID"] = "e9bf28e6e834481bb6f48f548ad13606"
    write_journal(
        tmp_path / "system.journal",
        [
            entry(1, "Missed 3 kernel messages", **missed),
            entry(2, "Out of memory: Killed process 7 (x)", **kernel),
        ],
    )
    gap, lines = polled(opened.source(stream=KERNEL))
    assert isinstance(gap, Gap)
    assert (gap.stream, gap.reason) == ("kernel.log", "Missed 3 kernel messages")
    assert isinstance(lines, Lines)
    assert lines.data == (
        b"2026-11-21T02:52:03.000000+0000 node-a kernel: Out of memory: Killed process 7 (x)\n"
    )
    line = kernel_line(lines.data.decode())
    assert line is not None
    assert line.stamp == Stamp("utc", FIRST_NS + 2 * NS_PER_S)
    assert (line.host, line.text.strip()) == ("node-a", "Out of memory: Killed process 7 (x)")


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    """It can never be read: an error, at once."""
    with pytest.raises(BadInputError, match="the journal is not read: No such file"):
        JournalSource(lambda found: Journal(tmp_path / "none", found), KUBELET, None, 0)


def test_a_command_that_ends(tmp_path: Path) -> None:
    """It is a gap, and it is started again 15 seconds later, not before."""
    write_journal(tmp_path / "system.journal", [entry(0, "first")])
    program = tmp_path / "journalctl"
    program.write_text("#!/bin/sh\necho no journal for you >&2\nexit 1\n")
    program.chmod(0o755)
    source = JournalSource(
        lambda found: JournalCommand(tmp_path, found, program=str(program)), KUBELET, None, 0
    )
    gaps = until(lambda: list(source.poll(FIRST_NS)))
    assert gaps == [Gap("kubelet.log", "journalctl has ended: no journal for you", None, None)]
    program.write_text('#!/bin/sh\nexec journalctl "$@"\n')
    assert not list(source.poll(FIRST_NS + 14 * NS_PER_S))
    tool("journalctl")
    over, lines = polled(source, now_ns=FIRST_NS + 15 * NS_PER_S)
    assert isinstance(over, Gap)
    assert over.until_ns is not None
    assert text([lines]) == ["first"]
    source.close()


def test_a_journal_is_opened_anew_now_and_then(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read of it would stay mapped; nothing is lost by that."""
    monkeypatch.setattr(journal, "_MAPPED_BYTES_MAX", 100)
    monkeypatch.setattr(journal, "POLL_BYTES", 100)
    write_journal(tmp_path / "system.journal", [entry(n, f"line {n}") for n in range(1, 10)])
    given = [text([each])[0] for each in polled(opened.source(), 10)]
    assert given == ["first", *(f"line {n}" for n in (2, 4, 6, 8))]


def test_below_the_root_of_a_system(reader: Reader, tmp_path: Path) -> None:
    """The persistent place, else the volatile; when journald goes over to another, so does it."""
    machine = "log/journal/00000000000000000000000000000002"
    places = [tmp_path / place / machine for place in ("run", "var")]
    write_journal(places[0] / "system.journal", [entry(0, "volatile")])
    sources = Opened(reader, tmp_path)
    source = sources.source()
    try:
        assert text(polled(source)) == ["volatile"]
        write_journal(places[0] / "system.journal", [entry(1, "still")])
        assert text(polled(source)) == ["still"]
        (places[0] / "system.journal").rename(places[0] / "system@0001.journal")
        write_journal(places[0] / "system.journal", [entry(2, "rotated")])
        assert text(polled(source)) == ["rotated"]
        write_journal(places[1] / "system.journal", [entry(2, "rotated"), entry(3, "persistent")])
        given = polled(source, now_ns=FIRST_NS + 301 * NS_PER_S)
        assert text(given[-1:])[-1] == "persistent"
    finally:
        sources.close()
