"""A log file is read to its end through every rotation: each line once, in its order."""

import gzip
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kubeledger.model.errors import BadInputError
from kubeledger.model.units import NS_PER_S
from kubeledger.record.observations import POLL_BYTES, Gap, Lines, Mark, Observation
from kubeledger.record.sources.files import LogFile
from kubeledger.record.sources.rotation import Content, Links


class Log:
    """A log and the recorder that reads it.

    Attributes:
        read: what was read so far; ``gaps`` what could not be.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / "kubelet.log"
        self.written = b""
        self.read = b""
        self.gaps: list[Gap] = []
        self._cursor: str | None = None
        self._source = LogFile("kubelet.log", self.path)
        self._number = 0
        self._now_ns = 0

    def write(self, lines: int = 1, end: str = "\n") -> None:
        for _ in range(lines):
            self._number += 1
            text = f"line {self._number} {'x' * (self._number * 37 % 211)}{end}".encode()
            self.written += text
            with self.path.open("ab") as file:
                file.write(text)

    def poll(self) -> list[Observation | Mark]:
        self._now_ns += NS_PER_S
        given = list(self._source.poll(self._now_ns))
        for each in given:
            if isinstance(each, Mark):
                self._cursor = each.cursor
                return self.poll()
            self._cursor = each.cursor
            if isinstance(each, Lines):
                assert each.data.endswith(b"\n")
                self.read += each.data
            elif isinstance(each, Gap):
                self.gaps.append(each)
        return given

    def close(self) -> None:
        self._source.close()

    def restart(self) -> None:
        """Another recorder goes on from the cursor."""
        self.close()
        self._source = LogFile("kubelet.log", self.path, self._cursor)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """A log with some lines, that were read."""
    log = Log(tmp_path)
    with closing(log):
        log.write(100)
        log.poll()
        assert log.read == log.written
        yield log


def _shift(path: Path) -> None:
    for number in range(40, 0, -1):
        for suffix in ("", ".gz"):
            rotated = path.with_name(f"{path.name}.{number}{suffix}")
            if rotated.exists():
                rotated.rename(path.with_name(f"{path.name}.{number + 1}{suffix}"))


def rename(path: Path) -> None:
    """Logrotate's ``create``."""
    _shift(path)
    path.rename(path.with_name(f"{path.name}.1"))


def copy(path: Path) -> None:
    """Logrotate's ``copytruncate``."""
    _shift(path)
    shutil.copyfile(path, path.with_name(f"{path.name}.1"))
    with path.open("r+b") as file:
        file.truncate()


def pack(path: Path) -> None:
    """Logrotate's ``compress``, of the file that was renamed before."""
    rename(path)
    for plain in path.parent.glob(f"{path.name}.*[0-9]"):
        data = plain.read_bytes()
        packed = plain.with_name(f"{plain.name}.gz")
        packed.write_bytes(gzip.compress(data))
        shutil.copystat(plain, packed)
        plain.unlink()


ROTATIONS = (rename, copy, pack)


@pytest.mark.parametrize("rotate", ROTATIONS)
@pytest.mark.parametrize("restarts", [False, True])
def test_the_rest_is_read_first(rotate: Callable[[Path], None], restarts: bool, log: Log) -> None:
    """What was written before the rotation and not read yet comes before what is written after."""
    log.write(5)
    rotate(log.path)
    if restarts:
        log.restart()
    log.write(7)
    log.poll()
    log.poll()
    assert log.read == log.written
    assert not log.gaps


@pytest.mark.parametrize("rotate", ROTATIONS)
def test_several_rotations_while_nobody_reads(rotate: Callable[[Path], None], log: Log) -> None:
    """All files that came between are read, in the order in which they were written."""
    for _ in range(3):
        log.write(3)
        rotate(log.path)
    log.write(2)
    log.restart()
    log.poll()
    assert log.read == log.written
    assert not log.gaps


@pytest.mark.parametrize("seed", range(12))
def test_any_order_of_things(seed: int, log: Log) -> None:
    """Writing, rotating, reading and starting again in any order."""
    chance = random.Random(seed)
    for _ in range(60):
        match chance.choice(("write", "write", "write", "poll", "rotate", "restart")):
            case "write":
                log.write(chance.randrange(1, 6))
            case "rotate" if log.path.exists() and log.path.stat().st_size > 0:
                chance.choice(ROTATIONS)(log.path)
            case "restart":
                log.restart()
            case _:
                log.poll()
    log.write()
    log.poll()
    log.poll()
    assert log.read == log.written
    assert not log.gaps


@pytest.mark.parametrize("step", [Links.found, Content.__init__])
def test_a_rotation_while_the_next_file_is_looked_for(
    step: Callable[..., object], log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes between two steps of the search, and what it moves is read in its place."""
    rotations = [rename]

    def rotated(*arguments: object) -> object:
        is_after = step.__name__ == "found"
        files = step(*arguments) if is_after else None
        if rotations:
            rotations.pop()(log.path)
            log.write(2)
        return files if is_after else step(*arguments)

    log.write(3)
    rename(log.path)
    log.write(3)
    where = Links if step.__name__ == "found" else Content
    monkeypatch.setattr(where, step.__name__, rotated)
    for _ in range(3):
        log.poll()
    assert log.read == log.written
    assert not log.gaps


def test_a_line_is_read_when_it_is_whole(log: Log) -> None:
    log.write(end="")
    assert not log.poll()
    log.write()
    log.poll()
    assert log.read == log.written


def test_half_a_line_before_a_rotation_is_a_line(log: Log) -> None:
    log.write(end="")
    rename(log.path)
    log.write(2)
    log.poll()
    assert log.read.replace(b"\n", b"") == log.written.replace(b"\n", b"")


def _data(source: LogFile) -> bytes:
    given = list(source.poll(1))
    if any(isinstance(each, Mark) for each in given):
        return _data(source)
    return b"".join(each.data for each in given if isinstance(each, Lines))


def test_the_last_line_of_a_log_that_has_ended(tmp_path: Path) -> None:
    """It counts without an end where nothing more comes."""
    path = tmp_path / "kubelet.log"
    path.write_bytes(b"one\ntwo")
    source = LogFile("kubelet.log", path, is_whole=True)
    with closing(source):
        assert _data(source) == b"one\ntwo"
        assert not _data(source)


def test_what_was_rotated_away_is_a_gap(log: Log) -> None:
    """The file is gone before it was read to its end."""
    log.restart()
    log.path.unlink()
    read = log.read
    log.write(4)
    log.poll()
    (gap,) = log.gaps
    assert "rotated away" in gap.reason
    assert gap.since_ns is not None
    assert gap.until_ns is not None
    assert gap.since_ns < gap.until_ns
    assert log.read[len(read) :] == log.written[len(read) :]


def test_a_log_that_was_emptied_is_a_gap(log: Log) -> None:
    """No copy of it is there: what came last may be lost."""
    with log.path.open("r+b") as file:
        file.truncate()
    log.write(30)
    log.poll()
    assert len(log.gaps) == 1
    assert log.read == log.written


def test_a_log_that_is_not_there_yet(tmp_path: Path) -> None:
    log = Log(tmp_path)
    with closing(log):
        assert not log.poll()
        log.write(3)
        log.poll()
    assert log.read == log.written


def test_a_directory_that_may_not_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is read by its own name; what it was before a rotation cannot be found."""

    def forbidden(path: Path) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", forbidden)
    log = Log(tmp_path)
    with closing(log):
        log.write(3)
        log.poll()
        log.restart()
        log.write(2)
        log.poll()
        assert log.read == log.written
        rename(log.path)
        log.write(2)
        log.poll()
        assert not log.gaps  # it was still open
        log.restart()
        rename(log.path)
        log.write(2)
        log.poll()
    assert log.read == log.written
    assert len(log.gaps) == 1


def test_a_link_to_itself_among_rotated_files(log: Log) -> None:
    """It hides neither the log nor what was rotated."""
    for name in ("kubelet-20.log", "kubelet.log.0"):
        (log.path.parent / name).symlink_to(name)
    log.write(3)
    rename(log.path)
    log.restart()
    log.write(2)
    log.poll()
    assert log.read == log.written
    assert not log.gaps


def test_much_comes_in_parts(tmp_path: Path) -> None:
    """A poll gives a limited amount, and a line that is longer than it in pieces."""
    path = tmp_path / "kubelet.log"
    content = b"x" * (2 * POLL_BYTES + 5) + b"\n" + b"short\n" * POLL_BYTES
    path.write_bytes(content)
    source, read, polls = LogFile("kubelet.log", path), b"", 0
    with closing(source):
        while data := _data(source):
            assert len(data) <= 2 * POLL_BYTES
            read += data
            polls += 1
    assert read == content
    assert polls > 3


def test_a_cursor_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="cursor of a log file"):
        LogFile("kubelet.log", tmp_path / "kubelet.log", "s=abc;i=1")
