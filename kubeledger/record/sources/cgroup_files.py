"""The values of the kubelet's cgroups, as one file of lines ``PATH/FILE VALUE``.

With cgroup v1 each path begins with its controller, as the directories do. Only what the kubelet or
its runtime writes is read, not what is used; a snapshot is given when a value changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from kubeledger.kubelet.cgroups.paths import parse_cgroup_path
from kubeledger.record.observations import Document, Gap
from kubeledger.record.sources.snapshots import READ_NS, Every, Outage, Unchanged, snapshot

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
