"""Files of a cgroup: compare what a snapshot shows with what the kubelet can have left there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from kubeledger.cgroups.records import CgroupUpdated
from kubeledger.machine import Evidence, Record
from kubeledger.verify.belief import Ruling
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.cgroups.values import Values, first_of, keys_of, nested, recorded_of

__all__ = ["Compared", "Lines", "Option", "compare", "line_of", "uncompared"]

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
_NAMES: Final = {
    "cpu_shares": "cpu.shares",
    "cpu_quota_us": "the CPU quota",
    "cpu_period_us": "the CPU period",
    "memory_limit_bytes": "the memory limit",
    "qos_class": "the QoS class of the path",
    "cgroup": "the path",
}
_FEW: Final = 4
"""Of so few cgroups nothing can be learned about which files a snapshot holds."""
_NAMED_MAX: Final = 6


class Option(msgspec.Struct, frozen=True):
    """One way in which the files can have been written.

    Attributes:
        values: what they then hold.
        why: a clause on what gives them: "pod a/b requests 250m CPU, which are 256 shares".
        inputs: seqs of the records it rests on.
        fields: further fields of the record and the one value each can have.
    """

    values: Values
    why: str
    inputs: tuple[int, ...] = ()
    fields: Fields = {}


class Compared(msgspec.Struct, frozen=True):
    """What a comparison gave.

    Attributes:
        ruling: what the kubelet leaves there, and whether that is what the record holds.
        recorded: what was compared.
        differing: ``field`` or ``field/file`` of the values that no option gives.
    """

    ruling: Ruling
    recorded: Fields
    differing: tuple[str, ...] = ()


def compare(body: CgroupUpdated, options: Iterable[Option]) -> Compared | None:
    """Find the option that a record agrees with.

    Args:
        body: the record.
        options: (1 or more,) first the one that is decided again; any other is within the
            kubelet's freedom. What comes behind the one that agrees is not looked at.

    Returns:
        None where the record holds none of the values.
    """
    first: Option | None = None
    for option in options:
        is_first = first is None
        first = first or option
        recorded, differing = _differing(body, option)
        if not recorded:
            return None
        if not differing:
            chosen = is_first and all(
                value == option.values[key][0]
                for key, value in recorded.items()
                if key in option.values
            )
            expected = nested(_expected(first, recorded))
            ruling = Ruling(
                allowed=True,
                chosen=chosen,
                expected=expected,
                why=option.why,
                inputs=option.inputs,
            )
            return Compared(ruling, nested(recorded))
    assert first is not None
    recorded, differing = _differing(body, first)
    flat = _expected(first, recorded)
    said = "; ".join(
        f"{_name(key)} is {_shown(recorded[key])} and had to be {_shown(flat[key])}"
        for key in differing
    )
    ruling = Ruling(
        allowed=False,
        expected=nested(flat),
        why=f"{said}: {first.why}",
        inputs=first.inputs,
        certain=body.level != "qos",
    )
    return Compared(ruling, nested(recorded), tuple(sorted(differing)))


def _differing(body: CgroupUpdated, option: Option) -> tuple[dict[str, Any], list[str]]:
    recorded = recorded_of(body, option.values)
    if not recorded:
        return {}, []
    differing = [key for key, value in recorded.items() if value not in option.values[key]]
    for field, value in option.fields.items():
        recorded[field] = getattr(body, field)
        if recorded[field] != value:
            differing.append(field)
    return recorded, differing


def _expected(option: Option, recorded: dict[str, Any]) -> dict[str, Any]:
    known = [key for key in recorded if key in option.values]
    return {**first_of(option.values, known), **option.fields}


def _name(key: str) -> str:
    """As the kubelet's and the kernel's documentation call it."""
    field, _, file = key.partition("/")
    if field == "hugetlb_limit_bytes":
        return f"the limit of {file} huge pages"
    return file or _NAMES.get(key, key)


def _shown(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


# Lines ------------------------------------------------------------------------------------


def _file_of(body: CgroupUpdated, key: str) -> str:
    """The file of the cgroup that holds a value; ``field`` or ``field/file`` -> its name."""
    field, _, file = key.partition("/")
    if field == "hugetlb_limit_bytes":
        return f"hugetlb.{file}."
    return file or (_V2_FILES if body.unified else _V1_FILES).get(field, "")


def line_of(record: Record, body: CgroupUpdated, keys: Sequence[str]) -> Evidence | None:
    """The first line of a record that holds one of some values; None where none does."""
    names = tuple(f"/{name}" for key in keys if (name := _file_of(body, key)))
    for piece in record.evidence if names else ():
        file = f"/{(piece.text or '').split(' ', 1)[0].rpartition('/')[2]}"
        if any(file.startswith(name) if name.endswith(".") else file == name for name in names):
            return piece
    return None


def uncompared(body: CgroupUpdated, compared: Fields) -> str:
    """Words for files whose values were not judged, so that nobody takes them for right."""
    left: list[str] = []
    known: set[str] = set()
    for key in keys_of(body):
        field, _, file = key.partition("/")
        told = field in compared and (not file or file in compared[field])
        if told:
            known.add(_file_of(body, key))
        else:
            left.append(_file_of(body, key))
    names = sorted(set(left) - known)
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return f"; not compared: {', '.join(names[:_NAMED_MAX])}{more}" if names else ""


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

    def missing(self, body: CgroupUpdated) -> list[str]:
        """Files of which the snapshot holds no line for this cgroup, as missing inputs."""
        held = set(keys_of(body))
        if self._usual is None:
            most = 3 * self._records
            usual = (key for key, count in self._held.items() if 4 * count >= most)
            self._usual = frozenset(usual if self._records >= _FEW else ())
        gone = {key for key in body.changed if key in _V1_FILES and key not in held}
        names = {_file_of(body, key) for key in (self._usual | gone) - held}
        return [
            f"{name} of the cgroup, which this snapshot does not hold" for name in sorted(names)
        ]
