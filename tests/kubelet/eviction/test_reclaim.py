"""Eviction signals to reclaim functions, by disk layout and version."""

import pytest

from kubeledger.kubelet.eviction.signals import (
    SPLIT_DISK_ERROR,
    DiskLayout,
    reclaim_functions,
    split_disk_error,
)
from kubeledger.kubelet.profile.resolve import resolve

SHORT = {"DeleteAllUnusedContainers": "C", "DeleteUnusedImages": "I"}

TABLE = """
version layout    nodefs imagefs containerfs
1.20.2  shared    CI     CI      -
1.20.2  dedicated -      CI      -
1.28.0  split     -      CI      -
1.29.0  shared    CI     CI      -
1.29.0  dedicated -      CI      -
1.31.0  split     C      I       -
1.32.0  shared    CI     CI      CI
1.32.0  dedicated -      CI      CI
1.32.0  split     C      I       C
1.36.2  shared    CI     CI      CI
1.36.2  dedicated -      CI      CI
1.36.2  split     C      I       C
"""


@pytest.mark.parametrize("row", TABLE.split("\n")[2:-1])
def test_what_a_signal_reclaims(row: str) -> None:
    """Space and inodes of a disk reclaim alike, containers before images."""
    version, layout, *cells = row.split()
    facts = resolve(version).eviction
    for disk, cell in zip(("nodefs", "imagefs", "containerfs"), cells, strict=True):
        for amount in ("available", "inodesFree"):
            functions = reclaim_functions(f"{disk}.{amount}", layout, facts)  # type: ignore[arg-type] # of the table
            assert "".join(SHORT[f] for f in functions) == cell.strip("-")


OTHERS = ["memory.available", "pid.available", "allocatableMemory.available", "nodefs", "nodefs.x"]


@pytest.mark.parametrize("signal", OTHERS)
@pytest.mark.parametrize("layout", ["shared", "dedicated", "split"])
def test_other_signals_reclaim_nothing(signal: str, layout: DiskLayout) -> None:
    assert reclaim_functions(signal, layout, resolve("1.36.2").eviction) == ()


@pytest.mark.parametrize(
    ("version", "layout", "error"),
    [
        ("1.28.0", "split", ""),
        ("1.29.0", "dedicated", ""),
        ("1.29.0", "split", SPLIT_DISK_ERROR),
        ("1.30.9", "split", SPLIT_DISK_ERROR),
        ("1.31.0", "split", ""),
    ],
)
def test_split_disks_with_the_gate_off(version: str, layout: DiskLayout, error: str) -> None:
    """The eviction manager does nothing on such a node."""
    assert split_disk_error(layout, resolve(version).eviction) == error
