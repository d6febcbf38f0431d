"""The lines of a snapshot: which hold a value, and which should be there and are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from kubeledger.cgroups.records import CgroupUpdated
from kubeledger.machine import Evidence, Record
from kubeledger.verify.finding import Fields

__all__ = ["Lines", "file_of", "line_of", "uncompared"]

_V1_FILES: Final = {
    "cpu_shares": "cpu.shares",
    "cpu_quota_us": "cpu.cfs_quota_us",
    "cpu_period_us": "cpu.cfs_period_us",
    "memory_limit_bytes": "memory.limit_in_bytes",
}
_V2_FILES: Final = {
    "cpu_quota_us": "cpu.max",
    "cpu_period_us": "cpu.max",
    "memory_limit_bytes": "memory.max",
}
_FEW: Final = 4
"""Of so few cgroups nothing can be learned about which files a snapshot holds."""


def file_of(body: CgroupUpdated, key: str) -> str:
    """The file of the cgroup that holds a value; ``field`` or ``field/file`` -> its name."""
    field, _, file = key.partition("/")
    if field == "hugetlb_limit_bytes":
        return f"hugetlb.{file}."
    return file or (_V2_FILES if body.unified else _V1_FILES).get(field, "")


def line_of(record: Record, body: CgroupUpdated, keys: tuple[str, ...]) -> Evidence | None:
    """The first line of a record that holds one of some values; None where none does."""
    names = tuple(f"/{name}" for key in keys if (name := file_of(body, key)))
    for piece in record.evidence:
        file = f"/{(piece.text or '').split(' ', 1)[0].rpartition('/')[2]}"
        if any(file.startswith(name) if name.endswith(".") else file == name for name in names):
            return piece
    return None


def uncompared(body: CgroupUpdated, compared: Fields) -> list[str]:
    """Files, sorted, whose values a record holds and a finding did not compare."""
    left: set[str] = set()
    known: set[str] = set()
    for key in _keys(body):
        field, _, file = key.partition("/")
        told = field in compared and (not file or file in compared[field])
        (known if told else left).add(file_of(body, key))
    return sorted(left - known)


class Lines:
    """Which values the snapshots of a ledger hold of nearly every cgroup."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._records = 0

    def foresee(self, record: Record) -> None:
        """Take in a record of the first reading."""
        assert isinstance(record.body, CgroupUpdated)
        self._records += 1
        self._held.update(_keys(record.body))

    def missing(self, body: CgroupUpdated) -> list[str]:
        """Files of which the snapshot holds no line for this cgroup, as missing inputs."""
        held = set(_keys(body))
        usual = [
            key
            for key, count in self._held.items()
            if self._records >= _FEW and 4 * count >= 3 * self._records
        ]
        gone = {key for key in body.changed if key in _V1_FILES and key not in held}
        names = {file_of(body, key) for key in {*usual, *gone} - held}
        return [
            f"{name} of the cgroup, which this snapshot does not hold" for name in sorted(names)
        ]


def _keys(body: CgroupUpdated) -> Iterator[str]:
    """``field`` or ``field/file`` of all values that a record holds."""
    yield from (field for field in _V1_FILES if getattr(body, field) is not None)
    for field in ("hugetlb_limit_bytes", "unified", "other"):
        yield from (f"{field}/{file}" for file in getattr(body, field))
