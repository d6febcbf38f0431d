"""The lines of a snapshot: which hold a value, and which should be there and are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from kubeledger.cgroups.records import CgroupUpdated
from kubeledger.machine import Evidence, Record
from kubeledger.verify.finding import Fields

__all__ = ["Lines", "file_of", "keys_of", "line_of", "uncompared"]

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
    if not keys:
        return None
    names = tuple(f"/{name}" for key in keys if (name := file_of(body, key)))
    for piece in record.evidence:
        file = f"/{(piece.text or '').split(' ', 1)[0].rpartition('/')[2]}"
        if any(file.startswith(name) if name.endswith(".") else file == name for name in names):
            return piece
    return None


def uncompared(body: CgroupUpdated, keys: Sequence[str], compared: Fields) -> list[str]:
    """Files, sorted, whose values a record holds (``keys``) and a finding did not compare."""
    left: list[str] = []
    known: list[str] = []
    for key in keys:
        field, _, file = key.partition("/")
        told = field in compared and (not file or file in compared[field])
        (known if told else left).append(key)
    names = {file_of(body, key) for key in left}
    return sorted(names - {file_of(body, key) for key in known} if names else ())


class Lines:
    """Which values the snapshots of a ledger hold of nearly every cgroup."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._records = 0
        self._usual: frozenset[str] | None = None

    def foresee(self, record: Record) -> None:
        """Take in a record of the first reading."""
        assert isinstance(record.body, CgroupUpdated)
        self._records += 1
        self._held.update(keys_of(record.body))

    def missing(self, body: CgroupUpdated, keys: Sequence[str]) -> list[str]:
        """Files of which the snapshot holds no line for this cgroup, as missing inputs.

        Args:
            body: the record.
            keys: of all values that it holds.
        """
        held = set(keys)
        if self._usual is None:
            # All records were taken in by the first reading.
            most = 3 * self._records
            usual = (key for key, count in self._held.items() if 4 * count >= most)
            self._usual = frozenset(usual if self._records >= _FEW else ())
        gone = {key for key in body.changed if key in _V1_FILES and key not in held}
        names = {file_of(body, key) for key in (self._usual | gone) - held}
        return [
            f"{name} of the cgroup, which this snapshot does not hold" for name in sorted(names)
        ]


def keys_of(body: CgroupUpdated) -> list[str]:
    """``field`` or ``field/file`` of all values that a record holds."""
    keys = [field for field in _V1_FILES if getattr(body, field) is not None]
    for field, files in (
        ("hugetlb_limit_bytes", body.hugetlb_limit_bytes),
        ("unified", body.unified),
        ("other", body.other),
    ):
        if files:
            keys += [f"{field}/{file}" for file in files]
    return keys
