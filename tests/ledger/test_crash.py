"""A writer that is killed, in processes of their own."""

import os
import random
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from kubeledger.ledger.audit import audit
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.recovery import RecoveryReport
from kubeledger.ledger.storage import MANIFEST
from kubeledger.ledger.writer import WriterOptions
from kubeledger.model.errors import LedgerBusyError
from tests.ledger.making import NODE, append, batch, ledger_of, segment_paths, seqs, sizes

WRITER = """
import sys
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.storage import MANIFEST
from kubeledger.ledger.writer import WriterOptions
from tests.ledger.making import NODE, batch
ledger = Ledger.open(sys.argv[1], WriterOptions(segment_bytes=40_000))
with ledger.writer() as writer:
    while True:
        start = writer.next_seq(NODE) - 1
        last = writer.append(NODE, batch(start, 7))[-1]
        print(f"{last}\\n", end="", flush=True)  # one write, which no kill can cut in two
"""


def started(program: str, *arguments: str) -> subprocess.Popen[str]:
    """A Python process that finds the package and its tests."""
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )


def start_writer(ledger: Ledger) -> subprocess.Popen[str]:
    """A process that appends without end and prints the last seq of each batch."""
    return started(WRITER, str(ledger.path))


def kill(process: subprocess.Popen[str]) -> list[int]:
    """Kill it without warning; the seqs it had acknowledged."""
    process.send_signal(signal.SIGKILL)
    output, _ = process.communicate()
    return [int(line) for line in output.splitlines(keepends=True) if line.endswith("\n")]


NURSERY = f"""
import os, sys
{WRITER.partition("ledger = ")[0]}
for path in map(str.strip, sys.stdin):
    child = os.fork()
    if child == 0:
        print("pid", os.getpid(), flush=True)
        sys.argv[1:] = [path]
        break
    os.waitpid(child, 0)
    print("dead", flush=True)
else:
    sys.exit()
{WRITER[WRITER.index("ledger = ") :]}
"""
"""A process that has all imported, and forks a writer for each path that it reads."""


class Nursery:
    """Writers without the time that a new interpreter takes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.orders = process.stdin
        self.reported = process.stdout

    def start(self, ledger: Ledger) -> tuple[int, int]:
        """A writer's process number, and the last seq of its first batch."""
        self.orders.write(f"{ledger.path}\n")
        self.orders.flush()
        pid = int(self.reported.readline().removeprefix("pid "))
        return pid, int(self.reported.readline())

    def kill(self, pid: int) -> list[int]:
        """Kill it without warning; the seqs it had acknowledged meanwhile."""
        os.kill(pid, signal.SIGKILL)
        lines = iter(self.reported.readline, "dead\n")
        return [int(line) for line in lines]


@pytest.mark.parametrize("kills", [20, pytest.param(1000, marks=pytest.mark.nightly)])
def test_killed_writers_lose_nothing_acknowledged(tmp_path: Path, kills: int) -> None:
    """Time and again on the same ledger, while it rolls over and seals; readers look on."""
    moments = random.Random(7)
    with started(NURSERY) as process:
        nursery = Nursery(process)
        for round_ in range(-(-kills // 10)):  # a new ledger now and then: reading takes time
            ledger = ledger_of(tmp_path / f"{round_}", batch(0, 1))
            seen = 1
            for _ in range(min(10, kills - 10 * round_)):
                seen = killed(ledger, nursery, seen, moments)
            assert len(segment_paths(ledger)) > 1


def killed(ledger: Ledger, nursery: Nursery, seen: int, moments: random.Random) -> int:
    """Kill a writer at some moment and check what is left; the last seq that is there."""
    pid, first = nursery.start(ledger)
    assert first > seen - 7
    last, read = first + moments.randrange(100), [0]
    while read[-1] < last:
        read = seqs(ledger, after_seq=max(0, first - 3))
        assert read == list(range(first - 2, first - 2 + len(read)))
        assert first <= read[-1]
    acknowledged = max([first, *nursery.kill(pid)])
    with ledger.writer() as writer:  # the lock of the dead one does not count
        seen = writer.next_seq(NODE) - 1
        assert all(isinstance(one, RecoveryReport) for one in writer.recovery)
        assert writer.info(NODE).losses == []
    assert seen >= acknowledged
    assert sizes(ledger) == list(range(seen))
    assert audit(ledger).findings == ()
    return seen


def test_a_second_writer_is_told_who_the_first_is(tmp_path: Path) -> None:
    """By its process number; reading goes on meanwhile."""
    ledger = ledger_of(tmp_path / "l", batch(0, 1))
    process = start_writer(ledger)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(LedgerBusyError, match=f"process {process.pid}") as caught:
            append(ledger, batch(1, 1))
        assert caught.value.exit_code == 4
        assert audit(ledger).findings == ()
    finally:
        kill(process)


def test_two_writers_in_one_process(tmp_path: Path) -> None:
    """The second is refused, and the first is not disturbed."""
    ledger = ledger_of(tmp_path / "l")
    with ledger.writer() as writer:
        writer.append(NODE, batch(0, 1))
        with pytest.raises(LedgerBusyError, match=f"process {os.getpid()}"):
            append(Ledger.open(ledger.path), batch(1, 1))
        writer.append(NODE, batch(1, 1))
    append(ledger, batch(2, 1))
    assert seqs(ledger) == [1, 2, 3]


@pytest.mark.parametrize("content", ["", "999999\n", "not a number"])
def test_files_of_a_dead_writer_do_not_block(tmp_path: Path, content: str) -> None:
    """Only the lock counts, and that died with its process."""
    ledger = ledger_of(tmp_path / "l", batch(0, 1))
    for name in ("writer.lock", "writer.pid"):
        (ledger.path / name).write_text(content)
    assert append(ledger, batch(1, 1)) == [[2]]
    assert not (ledger.path / "writer.pid").exists()


def test_a_reader_during_an_append_sees_a_prefix(tmp_path: Path) -> None:
    """A line that is being written is not there yet."""
    ledger = ledger_of(tmp_path / "l", batch(0, 2))
    path = segment_paths(ledger)[0]
    data, manifest = path.read_bytes(), (ledger.path / MANIFEST).read_bytes()
    append(ledger, batch(2, 1))
    line = path.read_bytes()[len(data) :]
    (ledger.path / MANIFEST).write_bytes(manifest)
    for size in range(len(line) + 1):
        path.write_bytes(data + line[:size])
        expected = [1, 2, 3] if size == len(line) else [1, 2]
        assert seqs(ledger) == expected
        assert ledger.info(NODE).last_seq == expected[-1]
        assert audit(ledger).findings == ()


def test_a_reader_that_is_overtaken_by_sealing(tmp_path: Path) -> None:
    """It began on plain files; they are compressed before it gets to them."""
    ledger = Ledger.create(tmp_path / "l", WriterOptions(segment_bytes=1000))
    with ledger.writer() as writer, ExitStack() as stack:
        for start in range(0, 20, 4):
            writer.append(NODE, batch(start, 4))
            if start == 0:
                reading = ledger.records(NODE)
                assert next(reading).seq == 1
                listed = stack.enter_context(ledger.reading(NODE, 0, 0))
    assert [record.seq for record in reading] == [2, 3, 4]
    assert [record.seq for record in listed.records()] == [1, 2, 3, 4]
    assert {path.suffix for path in segment_paths(ledger)} == {".zst"}
