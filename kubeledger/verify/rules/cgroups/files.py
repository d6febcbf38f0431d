"""Files of a cgroup: compare what a snapshot shows with what the kubelet can have left there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.record import Evidence, Record
from kubeledger.verify.belief import Ruling
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.cgroups.values import Values, keys_of, nested, value_of

__all__ = ["NO_VALUES", "Compared", "Option", "compare", "line_of", "uncompared"]

NO_VALUES: Final = "values in the cgroup's files"

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
        differing: ``field`` or ``field/file`` that no option gives -> what it had to be.
    """

    ruling: Ruling
    recorded: Fields
    differing: Fields = {}


def compare(body: CgroupUpdated, options: Iterable[Option]) -> Compared | None:
    """Find the option that a record agrees with.

    Args:
        body: the record.
        options: (1 or more,) first the one that is decided again; any other is within the
            kubelet's freedom. What comes after the one that agrees is not looked at.

    Returns:
        None where the record holds none of the values.
    """
    first: Compared | None = None
    for option in options:
        compared = _compared(body, option)
        if compared is None or (first is None and compared.ruling.allowed):
            return compared
        if first is not None and compared.ruling.allowed:
            ruling = compared.ruling
            other = replace(ruling, chosen=False, expected=first.ruling.expected)
            return Compared(other, compared.recorded)
        first = first or compared
    assert first is not None
    return first


def _compared(body: CgroupUpdated, option: Option) -> Compared | None:
    expected: Fields = {}
    wrong: Fields = {}
    for key, values in option.values.items():
        held = value_of(body, key)
        if held is not None:
            expected[key] = values[0]
            if held not in values:
                wrong[key] = values[0]
    if not expected:
        return None
    expected |= option.fields
    recorded = {key: value_of(body, key) for key in expected}
    wrong |= {key: value for key, value in option.fields.items() if recorded[key] != value}
    why = option.why
    if wrong:
        text = (f"{_name(key)} is {_shown(recorded[key])} and had to be {_shown(value)}"
                for key, value in wrong.items())  # fmt: skip
        why = f"{'; '.join(text)}: {why}"
    elif others := [key for key in expected if recorded[key] != expected[key]]:
        given = (f"{_name(key)} of {_shown(recorded[key])}" for key in others)
        why = f"{why}; also possible: {', '.join(given)}"
    ruling = Ruling(
        allowed=not wrong,
        chosen=recorded == expected,
        expected=nested(expected),
        why=why,
        inputs=option.inputs,
        certain=body.level != "qos",
    )
    return Compared(ruling, nested(recorded), wrong)


def _name(key: str) -> str:
    """As the kubelet's and the kernel's documentation call it."""
    field, _, file = key.partition("/")
    if field == "hugetlb_limit_bytes":
        return f"the limit of {file} huge pages"
    return file or _NAMES.get(key, key)


def _shown(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _file_of(body: CgroupUpdated, key: str) -> str:
    """The file of the cgroup that holds a value; ``field`` or ``field/file`` -> its name."""
    field, _, file = key.partition("/")
    if field == "hugetlb_limit_bytes":
        return f"hugetlb.{file}."
    return file or (_V2_FILES if body.unified else _V1_FILES).get(field, "")


def line_of(record: Record, body: CgroupUpdated, keys: Iterable[str]) -> Evidence | None:
    """The first line of a record that holds one of some values; None where none does."""
    names = tuple(f"/{name}" for key in keys if (name := _file_of(body, key)))
    for piece in record.evidence if names else ():
        file = f"/{(piece.text or '').split(' ', 1)[0].rpartition('/')[2]}"
        if any(file.startswith(name) if name.endswith(".") else file == name for name in names):
            return piece
    return None


def uncompared(body: CgroupUpdated, compared: Fields) -> str:
    """Words for files whose values were not judged, so that nobody takes them for right."""
    files: dict[bool, set[str]] = {True: set(), False: set()}
    for key in keys_of(body):
        field, _, file = key.partition("/")
        given = field in compared and (not file or file in compared[field])
        files[given].add(_file_of(body, key))
    names = sorted(files[False] - files[True])
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return f"; not compared: {', '.join(names[:_NAMED_MAX])}{more}" if names else ""
