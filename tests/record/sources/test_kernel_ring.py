"""The kernel's ring buffer, stood in for by a socket that keeps records apart as it does."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeledger.ingest.sources.times import Stamp, kernel_line
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import NS_PER_S, parse_ts
from kubeledger.record.observations import Gap, Lines
from kubeledger.record.sources.kernel_ring import KernelRing, open_ring

NOW_NS = parse_ts("2026-11-21T03:01:00Z")
UPTIME_S = 1000
OOM = "Out of memory: Killed process 7 (x) total-vm:1kB"


class Ring:
    """Records are written into one end, and read from the other."""

    def __init__(self) -> None:
        self._write, self._read = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._read.setblocking(False)
        self.sources: list[KernelRing] = []

    def add(self, seq: int, second: int, text: str, priority: int = 6) -> None:
        """A record as /dev/kmsg gives it, with a line of its dictionary."""
        head = f"{priority},{seq},{second * 1_000_000},-;"
        self._write.send(f"{head}{text}\n SUBSYSTEM=pci\n".encode())

    def source(self, cursor: str | None = None, boot: str = "b1", since_s: int = 0) -> KernelRing:
        """At a time of day at which the machine has been up for so long."""
        source = KernelRing(
            lambda: os.dup(self._read.fileno()),
            "node-a",
            boot,
            cursor,
            NOW_NS - (UPTIME_S - since_s) * NS_PER_S,
            lambda: UPTIME_S * NS_PER_S,
        )
        self.sources.append(source)
        return source

    def close(self) -> None:
        for source in self.sources:
            source.close()
        self._write.close()
        self._read.close()


@pytest.fixture
def ring() -> Iterator[Ring]:
    opened = Ring()
    yield opened
    opened.close()


def test_lines_are_those_of_a_kernel_log(ring: Ring) -> None:
    """With the time of day; programs that write into the log are left out."""
    ring.add(5, 900, OOM)
    ring.add(6, 901, "systemd[1]: hello", priority=30)
    ring.add(7, 902, r"usb: \xc3\xa9")
    (lines,) = ring.source().poll(NOW_NS)
    assert isinstance(lines, Lines)
    assert lines.stream == "kernel.log"
    first, second = lines.data.decode().splitlines()
    assert first == f"2026-11-21T02:59:20.000000+0000 node-a kernel: {OOM}"
    assert second.endswith(" kernel: usb: é")
    line = kernel_line(first)
    assert line is not None
    assert line.stamp == Stamp("utc", NOW_NS - 100 * NS_PER_S)


def test_it_goes_on_after_its_cursor(ring: Ring) -> None:
    """Of the same boot; another boot's numbers begin anew."""
    ring.add(5, 900, "one")
    source = ring.source()
    (lines,) = source.poll(NOW_NS)
    assert isinstance(lines, Lines)
    assert not list(source.poll(NOW_NS))
    for seq in (5, 6):
        ring.add(seq, 900 + seq, "again")
    (later,) = ring.source(lines.cursor).poll(NOW_NS)
    assert isinstance(later, Lines)
    assert later.data.count(b"\n") == 1
    ring.add(2, 950, "after the boot")
    (booted,) = ring.source(later.cursor, boot="b2").poll(NOW_NS)
    assert isinstance(booted, Lines)
    assert b"after the boot" in booted.data


def test_what_was_overwritten_is_a_gap(ring: Ring) -> None:
    """While it was read, and while nobody did."""
    ring.add(5, 900, "one")
    source = ring.source()
    list(source.poll(NOW_NS))
    ring.add(9, 905, "two")
    gap, lines = source.poll(NOW_NS)
    since_ns, until_ns = NOW_NS - 100 * NS_PER_S, NOW_NS - 95 * NS_PER_S
    reason = "3 messages of the kernel were overwritten before they were read"
    assert gap == Gap("kernel.log", reason, since_ns, until_ns)
    assert isinstance(lines, Lines)
    ring.add(20, 910, "three")
    gap, _ = ring.source(lines.cursor).poll(NOW_NS)
    assert isinstance(gap, Gap)
    assert gap.reason.startswith("10 messages ")


def test_older_lines_are_left_out(ring: Ring) -> None:
    """Those from before the time that was asked for."""
    ring.add(5, 900, "old")
    ring.add(6, 950, "new")
    (lines,) = ring.source(since_s=950).poll(NOW_NS)
    assert isinstance(lines, Lines)
    assert lines.data.decode().count("kernel: new") == 1
    assert b"old" not in lines.data


def test_a_ring_that_may_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="the kernel's log is not read: No such file") as raised:
        open_ring(tmp_path / "kmsg")
    assert "CAP_SYSLOG" in raised.value.advice
