"""The values of the kubelet's cgroups, as one file of lines ``PATH/FILE VALUE``.

With cgroup v1 each path begins with its controller, as the directories do. Only what the kubelet or
a runtime at its behest writes is read, not what is used: a snapshot is given when a value changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from kubeledger.kubelet.cgroups.paths import parse_cgroup_path
from kubeledger.record.observations import Document, Gap
from kubeledger.record.sources.snapshots import READ_NS, Every, Outage, Unchanged, snapshot

__all__ = ["CgroupSnapshots"]

_V1 = {
    "cpu": ("cpu.cfs_period_us", "cpu.cfs_quota_us", "cpu.shares"),
    "cpuset": ("cpuset.cpus", "cpuset.mems"),
    "hugetlb": (),
    "memory": ("memory.limit_in_bytes",),
    "pids": ("pids.max",),
}
"""Controller -> files; of huge pages the limits of all sizes."""
_V2 = (
    *("cpu.max", "cpu.weight", "cpuset.cpus", "cpuset.mems"),
    *("memory.high", "memory.low", "memory.max", "memory.min", "memory.oom.group"),
    *("memory.swap.max", "pids.max"),
)
_HUGETLB = {1: ".limit_in_bytes", 2: ".max"}
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
        data = "".join(self._lines()).encode("utf-8", "replace")
        if not data:
            yield from self._outage.failed(f"no cgroup of a kubelet below {self._root}")
            return
        yield from self._outage.worked(now_ns)
        if self._unchanged.is_new(self.name, data):
            yield snapshot("cgroupfs.txt", "cgroup-files", data, now_ns)

    def fileno(self) -> None:
        """Polled each tick."""

    def close(self) -> None:
        """Nothing is open."""

    def _lines(self) -> Iterator[str]:
        if (self._root / "cgroup.controllers").exists():
            yield from _values(str(self._root), "", _V2, 2)
            return
        for controller, files in _V1.items():
            yield from _values(str(self._root / controller), controller, files, 1)


def _values(root: str, prefix: str, files: tuple[str, ...], version: int) -> Iterator[str]:
    huge_pages: list[str] | None = None
    for path in _kubelets(root, ""):
        if huge_pages is None:
            huge_pages = _huge_pages(root + path, _HUGETLB[version])
        for file in (*files, *huge_pages):
            value = _value(f"{root}{path}/{file}")
            if value is not None:
                yield f"{prefix}{path}/{file} {value}\n".removeprefix("/")


def _kubelets(root: str, path: str) -> Iterator[str]:
    """Paths of the kubelet's cgroups, with a leading slash, in the order of their names."""
    is_kubelets = parse_cgroup_path(path) is not None
    if is_kubelets:
        yield path
    elif path.count("/") >= _ABOVE_MAX:
        return
    for name in _directories(root + path):
        below = f"{path}/{name}"
        if not is_kubelets or parse_cgroup_path(below) is not None:
            yield from _kubelets(root, below)


def _directories(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(each.name for each in entries if each.is_dir(follow_symlinks=False))
    except OSError:  # removed meanwhile
        return []


def _huge_pages(directory: str, suffix: str) -> list[str]:
    """The files of the limits of huge pages of all sizes."""
    try:
        names = [each.name for each in Path(directory).iterdir()]
    except OSError:
        return []
    limits = (each for each in names if each.startswith("hugetlb.") and each.endswith(suffix))
    return sorted(each for each in limits if ".rsvd." not in each)


def _value(path: str) -> str | None:
    """The text of a file on one line; None when it is not there."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(handle, _VALUE_BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(handle)
    return " ".join(text.split())
