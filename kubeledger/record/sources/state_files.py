"""Checkpoints and state files of the kubelet, given when they have changed.

The kubelet replaces each of them by renaming a new file over it, so what is read is whole. They
are asked for their state every second and read every 15 seconds at most.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from kubeledger.record.observations import Document, Gap
from kubeledger.record.sources.snapshots import (
    CONTENT_BYTES_MAX,
    READ_NS,
    STAT_NS,
    Every,
    Outage,
    Unchanged,
    snapshot,
)


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
            yield from self._outage.failed(f"{self._path} is not read: {error.strerror or error}")
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
