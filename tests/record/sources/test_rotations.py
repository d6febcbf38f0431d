"""Whatever happens to a log's files: what is captured and the gaps are the whole, exactly."""

import gzip
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from kubeledger.model.units import NS_PER_S
from kubeledger.record.observations import Gap, Lines, Mark
from kubeledger.record.sources.files import LogFile
from kubeledger.record.sources.rotation import Content, Link


def lasting(gaps: Iterable[Gap]) -> set[str]:
    """Reasons of those that have not ended."""
    lasts: set[str] = set()
    for gap in gaps:
        (lasts.add if gap.until_ns is None else lasts.discard)(gap.reason)
    return lasts


class Node:
    """A log, whoever rotates it, and a recorder of which batches become durable.

    Attributes:
        gaps: those that were told, in their order; ``open`` the reasons of those that last.
        locked: inodes of files that cannot be opened.
        keeps_place: the writer does not append: it goes on where it was when the log is cut.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = directory / "kubelet.log"
        self.now_ns = 1000 * NS_PER_S
        self.written: list[tuple[int, bytes]] = []
        self.captured: list[bytes] = []
        self.gaps: list[Gap] = []
        self.locked: set[int] = set()
        self.days = self.place = 0
        self.keeps_place = False
        self._cursor: str | None = None
        self._source = LogFile("kubelet.log", self.log)

    @property
    def open(self) -> set[str]:
        """Reasons of the gaps that last."""
        return lasting(self.gaps)

    def write(self, lines: int = 1) -> None:
        for _ in range(lines):
            self.now_ns += NS_PER_S // 10
            number = len(self.written)
            text = f"{self.now_ns} line {number} {'x' * (number * 37 % 211)}\n".encode()
            self.written.append((self.now_ns, text))
            self.place = self.place if self.log.exists() else 0
            with self.log.open("r+b" if self.keeps_place and self.place else "ab") as file:
                file.seek(*((self.place, 0) if self.keeps_place else (0, 2)))
                file.write(text)
                self.place = file.tell()

    def poll(self, *, durable: bool = True, times: int = 1) -> None:
        """Read what there is; a crash may come before it is durable."""
        for _ in range(times):
            self.now_ns += NS_PER_S
            given = list(self._source.poll(self.now_ns))
            if not durable:
                self.restart()
                return
            for each in given:
                self._cursor = each.cursor or self._cursor
                if isinstance(each, Lines):
                    self.captured += each.data.splitlines(keepends=True)
                elif isinstance(each, Gap):
                    self.gaps.append(each)
            if any(isinstance(each, Mark) for each in given):
                self.poll()

    def restart(self) -> None:
        """Another recorder goes on from what was durable."""
        self._source.close()
        self._source = LogFile("kubelet.log", self.log, self._cursor)

    def forget(self) -> None:
        """Nothing was durable but where another recorder begins, and then it is killed, too."""
        self._cursor, self.captured = None, []
        self.restart()
        (mark,) = self._source.poll(self.now_ns)
        self._cursor = mark.cursor
        assert any(isinstance(each, Lines) for each in self._source.poll(self.now_ns))
        self.restart()

    def files(self) -> list[Path]:
        return sorted(path for path in self.directory.iterdir() if path != self.log)

    def away(self, polls: int = 3, *, restarts: bool = True) -> None:
        """Its directory is not there for a while: when it is opened, or while it is followed."""
        elsewhere = self.directory.with_name("elsewhere")
        self.directory.rename(elsewhere)
        if restarts:
            self.restart()
        self.poll(times=polls)
        elsewhere.rename(self.directory)

    def lock(self, path: Path) -> None:
        """Take its rights away."""
        self.locked.add(path.stat().st_ino)

    # --- rotations ---------------------------------------------------------------------------

    def shift(self) -> Path:
        """Make room for the newest of the numbered files."""
        for number in range(60, 0, -1):
            for suffix in ("", ".gz"):
                path = self.directory / f"kubelet.log.{number}{suffix}"
                if path.exists():
                    path.rename(self.directory / f"kubelet.log.{number + 1}{suffix}")
        return self.directory / "kubelet.log.1"

    def rename(self) -> Path:
        """Logrotate's ``create``."""
        return self.log.rename(self.shift())

    def copy(self) -> Path:
        """Logrotate's ``copytruncate``."""
        copy = Path(shutil.copyfile(self.log, self.shift()))
        os.truncate(self.log, 0)
        return copy

    def pack(self) -> Path:
        """Logrotate's ``compress``."""
        return self._packed(self.rename())

    def pack_later(self) -> Path:
        """Logrotate's ``delaycompress``."""
        path = self.rename()
        before = self.directory / "kubelet.log.2"
        if before.exists():
            self._packed(before)
        return path

    def _packed(self, path: Path) -> Path:
        packed = path.with_name(f"{path.name}.gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        if path.stat().st_ino in self.locked:
            self.lock(packed)
        path.unlink()
        return packed

    def date(self) -> Path:
        """Logrotate's ``dateext``."""
        self.days += 1
        return self.log.rename(self.directory / f"kubelet.log-{20261100 + self.days}")

    def close(self) -> Path:
        """Renamed, and its group may not read it."""
        path = self.rename()
        self.lock(path)
        return path

    def backdate(self) -> Path:
        """Renamed, and its time is no later than others'."""
        path = self.rename()
        for each in self.files():
            os.utime(each, ns=(NS_PER_S, NS_PER_S))
        return path

    # --- the whole -----------------------------------------------------------------------------

    def settle(self) -> None:
        """Let it read all that can be read."""
        self.locked.clear()
        self.write()
        self.poll(times=20)

    def lost(self) -> list[bytes]:
        """Lines that were not captured; none was captured twice, or is no line of the log."""
        written, captured = Counter(text for _, text in self.written), Counter(self.captured)
        assert not captured - written
        return list((written - captured).elements())

    def prove(self) -> None:
        """What was not captured stands in a gap, and no gap lasts."""
        times = {text: ts_ns for ts_ns, text in self.written}
        gaps = [gap for gap in self.gaps if gap.until_ns is not None]
        for text in self.lost():
            at_ns = times[text]
            assert any((gap.since_ns or 0) <= at_ns <= (gap.until_ns or 0) for gap in gaps), text
        assert not self.open


ROTATIONS: tuple[Callable[[Node], Path], ...] = (
    *(Node.rename, Node.copy, Node.pack, Node.pack_later),
    *(Node.date, Node.close, Node.backdate),
)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """A log with some lines, that were read."""
    node = Node(tmp_path)
    opens = Content.__init__

    def guarded(content: Content, link: Link) -> None:
        if link.path.stat().st_ino in node.locked:
            raise PermissionError(13, "Permission denied", str(link.path))
        opens(content, link)

    monkeypatch.setattr(Content, "__init__", guarded)
    node.write(20)
    node.poll()
    yield node
    node.restart()


_THINGS = (*["write"] * 5, "poll", "poll", "rotate", "rotate", "restart", "unlock", "clock", "away")


def run(node: Node, chance: random.Random, steps: int) -> None:
    """Anything, in any order; one scheme of names, as logrotate has for one log."""
    numbered = [rotation for rotation in ROTATIONS if rotation is not Node.date]
    rotations = [Node.date] if chance.random() < 0.2 else numbered
    node.keeps_place = chance.random() < 0.3
    for _ in range(steps):
        match chance.choice(_THINGS):
            case "write":
                node.write(chance.randrange(1, 9))
            case "rotate" if node.log.exists() and node.log.stat().st_size > 0:
                chance.choice(rotations)(node)
            case "restart":
                node.restart()
            case "clock":
                node.now_ns += chance.choice((-3600, 3600)) * NS_PER_S
            case "away":
                node.away(7, restarts=chance.random() < 0.5)
            case "unlock" if chance.random() < 0.3:
                node.locked.clear()
            case _:
                node.poll(durable=chance.random() < 0.8)
    node.settle()


@pytest.mark.parametrize("seed", range(10))
def test_any_rotations(seed: int, node: Node) -> None:
    """Everything that can be read in the end is captured, once."""
    run(node, random.Random(seed), 60)
    assert not node.lost()
    node.prove()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10, 210))
def test_any_rotations_for_long(seed: int, node: Node) -> None:
    run(node, random.Random(seed), 200)
    assert not node.lost()
    node.prove()


@pytest.mark.parametrize("rotate", ROTATIONS)
def test_a_rotation_before_the_first_batch_is_durable(
    rotate: Callable[[Node], Path], node: Node
) -> None:
    node.forget()
    rotate(node)
    node.write(3)
    node.settle()
    assert not node.lost()
    node.prove()


def test_a_file_that_cannot_be_opened(node: Node) -> None:
    """It is named while that lasts, over restarts; the log goes on; later it is read, once."""
    node.restart()
    node.write(5)
    closed = node.close()
    node.write(5)
    node.poll(times=9)
    assert node.open == {"kubelet.log.1 cannot be read: permission denied"}
    assert len(node.lost()) == 5
    node.restart()
    node.rename()
    node.write(2)
    node.poll(times=9)
    assert len(node.gaps) == 1
    node.locked.remove(closed.with_name("kubelet.log.2").stat().st_ino)
    node.poll(times=9)
    assert not node.lost()
    node.prove()


def test_a_file_that_never_can_be_opened(node: Node) -> None:
    """Its gap ends when it is removed: what it held was written in it."""
    node.restart()
    node.write(5)
    closed = node.close()
    node.write(5)
    node.poll(times=9)
    closed.unlink()
    node.poll(times=9)
    assert len(node.lost()) == 5
    node.prove()


@pytest.mark.parametrize("behind", [False, True])
def test_a_packed_file_that_is_cut(behind: bool, node: Node) -> None:
    """What can be unpacked is read; the rest, when it is whole after all."""
    node.restart()
    node.write(200)
    if not behind:
        node.poll()
        node.write(200)
        node.restart()
    packed = node.pack()
    whole = packed.read_bytes()
    packed.write_bytes(whole[: len(whole) * (1 if behind else 3) // 4])
    node.write(5)
    node.poll(times=9)
    assert node.open == {"kubelet.log.1.gz cannot be read: it is cut short"}
    assert node.captured[-1] == node.written[-1][1]
    assert 0 < len(node.lost()) < 200
    packed.write_bytes(whole)
    node.poll(times=9)
    assert not node.lost()
    node.prove()


def test_a_log_that_cannot_be_opened(node: Node) -> None:
    node.restart()
    node.lock(node.log)
    node.write(5)
    node.poll(times=9)
    assert node.open == {"kubelet.log cannot be read: permission denied"}
    node.locked.clear()
    node.poll(times=9)
    node.write(5)
    node.poll()
    assert not node.lost()
    node.prove()


def test_a_directory_that_comes_late(node: Node) -> None:
    """Within a minute that is no gap; later it is one, and nothing is lost."""
    for seconds, gaps in ((50, 0), (70, 2)):
        node.away(seconds)
        node.write(3)
        node.poll()
        assert not node.lost()
        assert len(node.gaps) == gaps
    node.prove()
    assert node.gaps[0].reason == f"{node.log} cannot be read: no such file or directory"


def test_a_directory_that_is_away_while_its_log_is_followed(node: Node) -> None:
    """What is open is read on, and nothing is lost."""
    node.away(70, restarts=False)
    node.write(3)
    node.poll()
    assert not node.lost()
    node.prove()


def test_a_name_that_is_mistyped(tmp_path: Path) -> None:
    node = Node(tmp_path / "none")
    node.poll(times=62)
    assert node.open == {f"{node.log} cannot be read: no such file or directory"}
