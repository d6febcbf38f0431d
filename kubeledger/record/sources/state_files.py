"""Sources of documents, asked in threads of their own: checkpoints and cgroup values.

The kubelet replaces each of them by renaming a new file over it, so what is read is whole. They
are asked for their state every second and read every 15 seconds at most.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple

from kubeledger.kubelet.cgroups.paths import parse_cgroup_path
from kubeledger.model.errors import reason_of
from kubeledger.model.units import NS_PER_S
from kubeledger.record.observations import Document, Gap

STAT_NS = NS_PER_S
"""How often files are asked whether they have changed."""
READ_NS = 15 * NS_PER_S
"""How often a document is read at most."""
CONTENT_BYTES_MAX = 16 << 20
"""A larger document is not read: a recorder has 64 MiB."""


def snapshot(name: str, format: str, data: bytes, ts_ns: int) -> Document:
    """A document in the directory of its time, to the millisecond."""
    moment = datetime.fromtimestamp(ts_ns // NS_PER_S, UTC)
    millis = ts_ns % NS_PER_S // 1_000_000
    return Document(f"snapshots/{moment:%Y%m%dT%H%M%S}.{millis:03}Z/{name}", format, data, ts_ns)


class Every:
    """Whether a period has passed; a clock that is set, forwards or back, stops nothing."""

    def __init__(self, period_ns: int) -> None:
        self._period_ns = period_ns
        self._last_ns: int | None = None

    def due(self, now_ns: int) -> bool:
        """True the first time, and each time that a period has passed since it was."""
        if self._last_ns is not None and 0 <= now_ns - self._last_ns < self._period_ns:
            return False
        self._last_ns = now_ns
        return True


class Unchanged:
    """Which documents are as they were when they were last given."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def is_new(self, name: str, content: bytes | tuple[bytes, ...]) -> bool:
        """Whether the content differs from the last one of this name; it counts as given."""
        before, now = self._given.get(name), hash(content)
        self._given[name] = now
        return before != now


class Outage:
    """The gaps of one thing that cannot always be observed: one as it begins, one when it is over.

    Attributes:
        stream: as in ``Gap``.
    """

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self._worked_ns: int | None = None
        self._open: Gap | None = None

    def failed(self, reason: str) -> Iterator[Gap]:
        """It could not be observed; of the first time in a row a gap is made."""
        if self._open is None:
            self._open = Gap(self.stream, reason, self._worked_ns, None)
            yield self._open

    def worked(self, now_ns: int) -> Iterator[Gap]:
        """It was observed; the gap that was open ends."""
        if self._open is not None:
            yield Gap(self.stream, self._open.reason, self._open.since_ns, now_ns)
        self._open, self._worked_ns = None, now_ns


# Sources that ask in a thread of their own: an answer that hangs holds up no other source.


class BackgroundSource(ABC):
    """A source that asks in rounds, one at a time; what a round observes can be polled as it comes.

    Attributes:
        name: as of ``Source``.
    """

    name: str

    def __init__(self) -> None:
        self._due = Every(READ_NS)
        self._thread: threading.Thread | None = None
        self._observed: SimpleQueue[Document | Gap] = SimpleQueue()
        self._error: Exception | None = None

    @abstractmethod
    def _round(self, clock: Callable[[], int]) -> Iterator[Document | Gap]:
        """Ask one question after the other, in the thread; ``clock`` gives the present, UTC."""

    def poll(self, now_ns: int) -> Iterator[Document | Gap]:
        """What was observed; a round begins when one is due and the last one has ended.

        Raises:
            Exception: as the round did.
        """
        is_busy = self._thread is not None and self._thread.is_alive()
        if not is_busy and self._due.due(now_ns):
            ahead_ns = now_ns - time.monotonic_ns()
            self._thread = threading.Thread(
                target=self._run, args=(ahead_ns,), name=self.name, daemon=True
            )
            self._thread.start()
        while True:
            try:
                yield self._observed.get_nowait()
            except Empty:
                break
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _run(self, ahead_ns: int) -> None:
        try:
            for each in self._round(lambda: time.monotonic_ns() + ahead_ns):
                self._observed.put(each)
        except Exception as error:  # raised where the observations are taken
            self._error = error

    def wait(self, timeout_s: float) -> None:
        """Wait for the end of the round, but not longer; then all of it can be polled."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def close(self) -> None:  # noqa: B027 # most have nothing to close
        """As ``Source.close``; a round that is under way ends by itself."""


# The values of the kubelet's cgroups, as one file of lines ``PATH/FILE VALUE``.
#
# With cgroup v1 each path begins with its controller, as the directories do. Only what the kubelet
# or
# its runtime writes is read, not what is used; a snapshot is given when a value changed.

_V1 = {
    "cpu": frozenset({b"cpu.cfs_period_us", b"cpu.cfs_quota_us", b"cpu.shares"}),
    "cpuset": frozenset({b"cpuset.cpus", b"cpuset.mems"}),
    "hugetlb": frozenset[bytes](),
    "memory": frozenset({b"memory.limit_in_bytes"}),
    "pids": frozenset({b"pids.max"}),
}
"""Controller -> files; of huge pages the limits of all sizes."""
_V2 = frozenset(
    (
        *(b"cpu.max", b"cpu.weight", b"cpuset.cpus", b"cpuset.mems"),
        *(b"memory.high", b"memory.low", b"memory.max", b"memory.min", b"memory.oom.group"),
        *(b"memory.swap.max", b"pids.max"),
    )
)
_HUGETLB = {1: b".limit_in_bytes", 2: b".max"}
_ABOVE_MAX = 3
"""Directories of a node's owner or runtime above the kubelet's."""
_VALUE_BYTES_MAX = 4096


class CgroupSnapshots:
    """The cgroups below a mount point of cgroup v1 or v2."""

    name = "cgroups"

    def __init__(self, root: Path) -> None:
        self._root = root
        self._reads = Every(READ_NS)
        self._unchanged = Unchanged()
        self._outage = Outage(self.name)

    def poll(self, now_ns: int) -> Iterable[Document | Gap]:
        """A snapshot, if a value has changed."""
        if not self._reads.due(now_ns):
            return
        data = b"".join(self._lines())
        if not data:
            yield from self._outage.failed(f"no cgroup of a kubelet below {self._root}")
            return
        yield from self._outage.worked(now_ns)
        if self._unchanged.is_new(self.name, data):
            yield snapshot("cgroupfs.txt", "cgroup-files", data, now_ns)

    def close(self) -> None:
        """Nothing is open."""

    def _lines(self) -> Iterator[bytes]:
        root = os.fsencode(self._root)
        if (self._root / "cgroup.controllers").exists():
            yield from _values(root, b"", b"", _V2, _HUGETLB[2])
            return
        for controller, files in _V1.items():
            name = controller.encode()
            yield from _values(b"%b/%b" % (root, name), name, b"", files, _HUGETLB[1])


def _values(
    root: bytes, prefix: bytes, path: bytes, files: frozenset[bytes], hugetlb: bytes
) -> Iterator[bytes]:
    """Lines of the kubelet's cgroups at and below a path, in the order of their names.

    Args:
        root: a mount point.
        prefix: what the paths begin with.
        path: below the root, with a leading slash; empty for the root itself.
        files: that are wanted.
        hugetlb: how the names of limits of huge pages end.
    """
    is_kubelets = parse_cgroup_path(os.fsdecode(path)) is not None
    below: list[bytes] = []
    names: list[bytes] = []
    try:
        with os.scandir(root + path) as entries:
            for entry in entries:
                (below if entry.is_dir(follow_symlinks=False) else names).append(entry.name)
    except OSError:  # removed meanwhile
        return
    if is_kubelets:
        for name in sorted(each for each in names if each in files or _is_limit(each, hugetlb)):
            value = _value(b"%b%b/%b" % (root, path, name))
            if value:
                yield (b"%b%b/%b %b\n" % (prefix, path, name, value)).removeprefix(b"/")
    elif path.count(b"/") >= _ABOVE_MAX:
        return
    for name in sorted(below):
        inner = b"%b/%b" % (path, name)
        if not is_kubelets or parse_cgroup_path(os.fsdecode(inner)) is not None:
            yield from _values(root, prefix, inner, files, hugetlb)


def _is_limit(name: bytes, hugetlb: bytes) -> bool:
    """Whether a file limits huge pages; the kubelet sets no reservations."""
    return name.startswith(b"hugetlb.") and name.endswith(hugetlb) and b".rsvd." not in name


def _value(path: bytes) -> bytes:
    """The text of a file on one line; empty when it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return b" ".join(os.read(handle, _VALUE_BYTES_MAX).split())
    except OSError:
        return b""
    finally:
        os.close(handle)


class _StateFile(NamedTuple):
    path: str
    name: str
    format: str


_STATE_FILES = (
    _StateFile(
        "device-plugins/kubelet_internal_checkpoint",
        "kubelet_internal_checkpoint",
        "device-checkpoint",
    ),
    _StateFile("cpu_manager_state", "cpu_manager_state", "cpu-manager-state"),
    _StateFile("memory_manager_state", "memory_manager_state", "memory-manager-state"),
    _StateFile("config.yaml", "kubelet-config.yaml", "kubelet-config"),
    _StateFile("allocated_pods_state", "allocated_pods_state", "pods-state"),
    _StateFile("actuated_pods_state", "actuated_pods_state", "pods-state"),
    _StateFile("pod_status_manager_state", "pod_status_manager_state", "pods-state"),
    _StateFile("dra_manager_state", "dra_manager_state", "dra-manager-state"),
)
"""Below the kubelet's directory. The last but one was the two before it until 1.32."""

_Stamp = tuple[int, int, int]
"""Inode, size and time of the last change: another when the file was written."""


class StateFiles:
    """The files below the kubelet's directory (``--root-dir``).

    A file that is not there is no gap: a policy that is off keeps none.
    """

    name = "state files"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._looks = Every(STAT_NS)
        self._files = [_Watched(directory / file.path, file) for file in _STATE_FILES]
        self._outage = Outage(self.name)

    def poll(self, now_ns: int) -> Iterable[Document | Gap]:
        """Those that have changed."""
        if not self._looks.due(now_ns):
            return
        if not self._directory.is_dir():
            yield from self._outage.failed(f"{self._directory} is not a directory")
            return
        yield from self._outage.worked(now_ns)
        for file in self._files:
            yield from file.changed(now_ns)

    def close(self) -> None:
        """Nothing is open."""


class _Watched:
    """One file, what of it was read last, and when."""

    def __init__(self, path: Path, file: _StateFile) -> None:
        self._path = path
        self._file = file
        self._reads = Every(READ_NS)
        self._stamp: _Stamp | None = None
        self._unchanged = Unchanged()
        self._outage = Outage(file.name)

    def changed(self, now_ns: int) -> Iterator[Document | Gap]:
        try:
            stamp = _stamp_of(self._path.stat())
            if stamp == self._stamp or not self._reads.due(now_ns):
                return
            stamp, data = _read(self._path)
        except FileNotFoundError:
            self._stamp = None
            return
        except OSError as error:
            yield from self._outage.failed(f"{self._path} is not read: {reason_of(error)}")
            return
        yield from self._outage.worked(now_ns)
        self._stamp = stamp
        if data and self._unchanged.is_new(self._file.name, data):
            yield snapshot(self._file.name, self._file.format, data, now_ns)


def _read(path: Path) -> tuple[_Stamp, bytes]:
    """The content of a file, and the stamp of just that content."""
    with path.open("rb") as stream:
        status = os.fstat(stream.fileno())
        if status.st_size > CONTENT_BYTES_MAX:
            raise OSError(f"larger than {CONTENT_BYTES_MAX} bytes")
        return _stamp_of(status), stream.read()


def _stamp_of(status: os.stat_result) -> _Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns
