"""Files of a cgroup: what a snapshot shows, against what the kubelet can have left there.

What is asked for is not always what a file then holds: no quota is ``-1``, a memory limit is
cut to whole pages, and cgroup v2 has a weight in the place of shares. Where machines or
runtimes differ, several values are possible; the first is what most show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kubeledger.kubelet.cgroups.pod_config import (
    QUOTA_PERIOD_US,
    weight_of_shares,
    weight_of_shares_curved,
)
from kubeledger.kubelet.cgroups.reducer import CgroupState
from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.record import Evidence, Record
from kubeledger.verify.belief import Ruling
from kubeledger.verify.evidence.line_classes import file_of_cgroup
from kubeledger.verify.finding import Fields

Values = dict[str, Sequence[Any]]
"""``field`` or ``field/file`` of a cgroup's record -> (1 or more,) what it may hold."""

_FIELDS: Final = {
    "cpu_shares": ("cpu.shares", "", "cpu.shares"),
    "cpu_quota_us": ("cpu.cfs_quota_us", "cpu.max", "the CPU quota"),
    "cpu_period_us": ("cpu.cfs_period_us", "cpu.max", "the CPU period"),
    "memory_limit_bytes": ("memory.limit_in_bytes", "memory.max", "the memory limit"),
}
"""Field of a record -> its file in cgroup v1 and in v2, and what it is called."""
_PAGES: Final = (4096, 16384, 65536)
"""Page sizes of the machines that kubelets run on; nearly all have the first."""
NO_LIMIT_V1: Final = tuple((2**63 - 1) // page * page for page in _PAGES)
_NONE: Final = -1
"""No quota, and in cgroup v2 no limit."""
_SYSTEMD_STEP_US: Final = 10_000


def is_unified(body: CgroupUpdated) -> bool:
    """Whether the files are those of cgroup v2."""
    return bool(body.unified)


def kernel_values(
    *,
    unified: bool,
    shares: Sequence[int],
    memory: Sequence[int | None] = (None,),
    quota_us: int | None = None,
    period_us: int | None = None,
    by_runtime: bool = False,
    by_systemd: bool = False,
) -> Values:
    """The files of a cgroup that was made for what is asked for.

    Args:
        shares: (1 or more,) CPU shares.
        memory: (1 or more,) limits in bytes; None and 0 are no limit.
        quota_us: None, 0 and -1 are no quota.
        period_us: None where it is not written.
        by_runtime: the runtime writes them, whose weights may follow the newer formula.
        by_systemd: systemd writes them, too, and rounds a quota up to 10 ms a second.
    """
    quotas = _quotas(quota_us, period_us, by_systemd=by_systemd)
    periods = _distinct([period_us or QUOTA_PERIOD_US])
    if by_systemd or quotas == (_NONE,):
        periods = _distinct([*periods, QUOTA_PERIOD_US])
    limits = _distinct(limit for asked in memory for limit in _limits(asked, unified=unified))
    values: Values = {"cpu_quota_us": quotas, "cpu_period_us": periods}
    values["memory_limit_bytes"] = limits
    if not unified:
        return {**values, "cpu_shares": _distinct(shares)}
    formulas = (weight_of_shares, weight_of_shares_curved)[: 2 if by_runtime else 1]
    return {
        **values,
        "unified/cpu.weight": _distinct(str(f(s)) for s in shares for f in formulas),
        "unified/cpu.max": tuple(f"{_text(quota)} {p}" for quota in quotas for p in periods),
        "unified/memory.max": tuple(_text(limit) for limit in limits),
    }


def _quotas(asked: int | None, period_us: int | None, *, by_systemd: bool) -> tuple[int, ...]:
    if not asked or asked < 0:
        return (_NONE,)
    if not by_systemd or not period_us:
        return (asked,)
    per_second = -(-asked * 1_000_000 // period_us)
    per_second = -(-per_second // _SYSTEMD_STEP_US) * _SYSTEMD_STEP_US
    return _distinct([asked, *(per_second * p // 1_000_000 for p in (period_us, QUOTA_PERIOD_US))])


def _limits(memory: int | None, *, unified: bool) -> tuple[int, ...]:
    if not memory or not 0 < memory <= NO_LIMIT_V1[0]:
        return (_NONE,) if unified else NO_LIMIT_V1
    return _distinct(memory // page * page for page in _PAGES)


def _text(number: int) -> str:
    return "max" if number == _NONE else str(number)


def _distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values))


def value_of(body: CgroupUpdated | CgroupState, key: str) -> Any:  # noqa: ANN401 # a number or a text
    """What the record holds under a key of ``Values``; None where it holds nothing."""
    field, _, file = key.partition("/")
    value = getattr(body, field)
    return value.get(file) if file else value


def keys_of(body: CgroupUpdated) -> list[str]:
    """``field`` or ``field/file`` of all values that a record holds."""
    keys = [field for field in _FIELDS if getattr(body, field) is not None]
    for field in ("hugetlb_limit_bytes", "unified", "other"):
        keys += [f"{field}/{file}" for file in getattr(body, field)]
    return keys


def nested(flat: Mapping[str, Any]) -> Fields:
    """The same with files below their fields, as in a record's body."""
    fields: Fields = {}
    for key, value in flat.items():
        field, _, file = key.partition("/")
        if file:
            fields.setdefault(field, {})[file] = value
        else:
            fields[field] = value
    return fields


NO_VALUES: Final = "values in the cgroup's files"

_NAMES: Final = {"qos_class": "the QoS class of the path", "cgroup": "the path"}
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
        differing: ``field`` or ``field/file`` that no option gives -> what it had to be.
    """

    ruling: Ruling
    recorded: Fields
    differing: Fields = {}


def compare(body: CgroupUpdated, options: Iterable[Option]) -> Compared | None:
    """The option that a record agrees with; None where it holds none of the values.

    The first of the ``options`` is the one that is decided again; any other is within the kubelet's
    freedom. What comes after the one that agrees is not looked at.
    """
    first: Compared | None = None
    for option in options:
        compared = _compared(body, option)
        if compared is None or (first is None and compared.ruling.allowed):
            return compared
        first = first or compared
        if compared.ruling.allowed:
            other = replace(compared.ruling, chosen=False, expected=first.ruling.expected)
            return Compared(other, compared.recorded)
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
    whole, is_chosen, certain = nested(expected), recorded == expected, body.level != "qos"
    ruling = Ruling(
        allowed=not wrong, chosen=is_chosen, expected=whole, why=why, inputs=option.inputs,
        certain=certain,
    )  # fmt: skip
    return Compared(ruling, nested(recorded), wrong)


def _name(key: str) -> str:
    """As the kubelet's and the kernel's documentation call it."""
    field, _, file = key.partition("/")
    if field == "hugetlb_limit_bytes":
        return f"the limit of {file} huge pages"
    return file or (_FIELDS[key][2] if key in _FIELDS else _NAMES.get(key, key))


def _shown(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _file_of(body: CgroupUpdated, key: str) -> str:
    """The file of the cgroup that holds a value; ``field`` or ``field/file`` -> its name."""
    field, _, file = key.partition("/")
    if field == "hugetlb_limit_bytes":
        return f"hugetlb.{file}."
    return file or (_FIELDS[field][is_unified(body)] if field in _FIELDS else "")


def line_of(record: Record, body: CgroupUpdated, keys: Iterable[str]) -> Evidence | None:
    """The first line of a record that holds one of some values; None where none does."""
    names = tuple(f"/{name}" for key in keys if (name := _file_of(body, key)))
    for piece in record.evidence if names else ():
        file = file_of_cgroup(piece.text or "")
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
