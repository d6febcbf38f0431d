"""A recorder in a process of its own, killed and stopped at any moment: nothing is lost or doubled.

Its log is rotated in seven ways, closed to it for a while, and its directory away; its journal is
vacuumed, its clock set, its capture deleted, its disk full. What was captured and the gaps are the
whole.
"""

import ctypes
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from kubeledger.ingest.sources.libsystemd import is_installed
from kubeledger.record.chapters import batches
from kubeledger.record.observations import Gap, Lines
from tests.record.journals import entry, write_journal
from tests.record.sources.test_rotations import ROTATIONS, Node, lasting
from tests.tools import missing
from tests.waiting import PATIENCE_S, until

_ROOT = Path(__file__).parents[2]
_FULL_BYTES = 20_000
_LOOK_S = 0.1


_DROP_FROM_BOUNDS = 24
_OVERRIDE_RIGHTS = (1, 2)
"""``PR_CAPBSET_DROP``; ``CAP_DAC_OVERRIDE``, ``CAP_DAC_READ_SEARCH``: they open all to root."""


def _prepare(room: int | None) -> None:
    """In the recorder's process: it minds rights, and has so many bytes for a file."""
    if os.geteuid() == 0:
        for right in _OVERRIDE_RIGHTS:
            ctypes.CDLL(None).prctl(_DROP_FROM_BOUNDS, right)
    if room is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))


class ClosedNode(Node):
    """A log of which files are closed to the recorder: by their rights."""

    def lock(self, path: Path) -> None:
        """Take them away."""
        super().lock(path)
        path.chmod(0)

    def unlock(self) -> None:
        """Give them back."""
        for path in self.files():
            path.chmod(0o644)
        self.locked.clear()

    def pack(self) -> Path:
        self.unlock()
        return super().pack()

    def pack_later(self) -> Path:
        self.unlock()
        return super().pack_later()


class Case:
    """A ledger and what is recorded into it.

    Args:
        directory: of the ledger.
        source: options that name a source.
    """

    def __init__(self, directory: Path, *source: str) -> None:
        self.ledger = directory / "ledger"
        self._clock = directory / "clock"
        self.set_clock(0)
        self._command = [sys.executable, "-m", "tests.record.hardship", str(self._clock), "record"]
        self._command += ["--node", "n", *source]
        self._read: dict[str, int] = {}
        self._observed: list[Lines | Gap] = []
        self._command += ["--ledger", str(self.ledger), "--since", "2026-01-01T00:00:00Z"]

    @contextmanager
    def recording(self, full_bytes: int | None = None) -> Iterator[subprocess.Popen[str]]:
        """A recorder at work, killed by the end of the context."""
        with subprocess.Popen(
            self._command, stderr=subprocess.PIPE, text=True, cwd=_ROOT,
            preexec_fn=partial(_prepare, full_bytes),
        ) as process:  # fmt: skip
            assert process.stderr is not None
            try:
                line = process.stderr.readline()
                assert full_bytes is not None or line.startswith("recording n: "), line
                yield process
            finally:
                ended = process.poll()  # of itself: only where the disk is full
                process.kill()
                said = process.stderr.read()
            assert full_bytes is not None or not ended, said

    def set_clock(self, seconds: int) -> None:
        """Let the node's clock be wrong by so much."""
        new = self._clock.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._clock)

    def observed(self) -> list[Lines | Gap]:
        """All that is durable of the kubelet's log, in all chapters."""
        for path in sorted(self.ledger.rglob("capture/*")):
            for _, end, batch in batches(path, self._read.get(path.stem, 0)):
                self._read[path.stem] = end
                told = (each for each in batch.seen if isinstance(each, Lines | Gap))
                self._observed += [each for each in told if each.stream == "kubelet.log"]
        return self._observed

    def lines(self) -> list[bytes]:
        data = b"".join(each.data for each in self.observed() if isinstance(each, Lines))
        return [line.rpartition(b"]: ")[2] for line in data.splitlines(keepends=True)]

    def gaps(self) -> list[Gap]:
        gaps = (each for each in self.observed() if isinstance(each, Gap))
        return [gap for gap in gaps if gap.until_ns is not None]

    def lasting(self) -> set[str]:
        return lasting(each for each in self.observed() if isinstance(each, Gap))

    def has(self, line: bytes) -> Callable[[], bool]:
        """Whether a line is captured; asked now and then."""

        def look() -> bool:
            time.sleep(_LOOK_S)
            return line in self.lines()

        return look


_HOUR_S = 3600


def _happens(node: ClosedNode, case: Case, chance: random.Random, *, dated: bool) -> None:
    """Something to a log beside its lines."""
    numbered = [each for each in ROTATIONS if each is not Node.date]
    match chance.choice(("rotate", "rotate", "rotate", "unlock", "clock", "away")):
        case "rotate" if node.log.exists() and node.log.stat().st_size:
            (Node.date if dated else chance.choice(numbered))(node)
        case "unlock":
            node.unlock()
        case "clock":
            case.set_clock(chance.randrange(-_HOUR_S, _HOUR_S))
        case "away":
            elsewhere = node.directory.with_name("elsewhere")
            node.directory.rename(elsewhere)
            time.sleep(chance.random() * 2)
            elsewhere.rename(node.directory)


def _rotated(
    node: ClosedNode, case: Case, chance: random.Random, kills: int, *, dated: bool
) -> None:
    for kill in range(kills):
        with case.recording(_FULL_BYTES if kill % 10 == 5 else None):
            for _ in range(chance.randrange(1, 4)):
                node.write(chance.randrange(1, 40))
                time.sleep(chance.random() / 20)
                _happens(node, case, chance, dated=dated)
            if kill % 10 == 3:
                for path in case.ledger.rglob("*.open"):
                    path.unlink()
                node.write()
                until(case.has(node.written[-1][1]))
            time.sleep(chance.random() / 2)


def _whole_of_files(directory: Path, seed: int, kills: int, *, dated: bool = False) -> None:
    (directory / "log").mkdir()
    node = ClosedNode(directory / "log")
    case = Case(directory, "--log", str(node.log))
    with case.recording():
        node.write()
        until(case.has(node.written[0][1]))
    _rotated(node, case, random.Random(seed), kills, dated=dated)
    node.unlock()
    with case.recording():
        node.write()
        until(case.has(node.written[-1][1]))
        until(lambda: len(case.lines()) >= len(node.written))
        until(lambda: not case.lasting())
    assert Counter(case.lines()) == Counter(text for _, text in node.written)


def test_a_log_over_kills(tmp_path: Path) -> None:
    _whole_of_files(tmp_path, 1, 1)


@pytest.mark.nightly
@pytest.mark.parametrize("dated", [False, True])
def test_a_log_over_a_hundred_kills(tmp_path: Path, dated: bool) -> None:
    """Rotated meanwhile, closed, away; its capture deleted, its disk full, its clock set."""
    _whole_of_files(tmp_path, 2, 100, dated=dated)


def _vacuumed(directory: Path, seed: int, kills: int) -> None:
    """A journal whose oldest files go, some of them before they are read."""
    if not is_installed():
        missing("libsystemd")
    chance, written = random.Random(seed), 0
    case = Case(directory, "--journal", str(directory / "journal"))
    files: list[Path] = []

    def write(count: int) -> None:
        nonlocal written
        files.append(directory / "journal" / f"system@{len(files):04}.journal")
        entries = [entry(n, f"line {n}") for n in range(written, written + count)]
        write_journal(files[-1], entries)
        written += count

    write(5)
    with case.recording():
        until(case.has(b"line 4\n"))

    def vacuum() -> None:
        for path in files[:-1]:  # the oldest go first, as with journald
            path.unlink(missing_ok=True)

    for kill in range(kills):
        with case.recording():
            for _ in range(chance.randrange(1, 4)):
                write(chance.randrange(1, 200))
                time.sleep(chance.random() / 5)
                if chance.random() < 0.5:
                    vacuum()
                if chance.random() < 0.2:
                    case.set_clock(chance.randrange(-_HOUR_S, _HOUR_S))
        if kill % 3 == 0:
            write(50)
            write(50)
            vacuum()
    with case.recording():
        write(1)
        until(case.has(b"line %d\n" % (written - 1)))
    captured = Counter(case.lines())
    assert set(captured.values()) == {1}
    assert len(captured) < written
    of_gaps = [(gap.since_ns or 0, gap.until_ns or 0) for gap in case.gaps()]
    begin_ns = int(str(entry(0, "")["__REALTIME_TIMESTAMP"])) * 1000
    for number in range(written):
        at_ns = begin_ns + number * 10**9
        lost = b"line %d\n" % number not in captured
        assert not lost or any(since < at_ns < until_ for since, until_ in of_gaps), number


def test_a_journal_over_kills(tmp_path: Path) -> None:
    _vacuumed(tmp_path, 1, 1)


@pytest.mark.nightly
def test_a_journal_over_many_kills(tmp_path: Path) -> None:
    _vacuumed(tmp_path, 2, 100)


def test_a_signal_while_it_resumes(tmp_path: Path) -> None:
    """It follows the log at once, however much is to be read again, and it ends at once."""
    node = Node(tmp_path)
    case = Case(tmp_path, "--log", str(node.log))
    begin = "I1121 02:52:41.296376    4052 kubelet.go:2430] "
    node.log.write_text("".join(f'{begin}"Line" n={n} x={"y" * 50}\n' for n in range(20_000)))
    size = node.log.stat().st_size

    def is_whole() -> bool:
        time.sleep(_LOOK_S)
        return sum(len(e.data) for e in case.observed() if isinstance(e, Lines)) >= size

    with case.recording():
        until(is_whole)
    with case.recording() as process:
        node.write()
        until(case.has(node.written[-1][1]))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
