"""Compare a cgroup's record with what the kubelet can have left there, and say it in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kubeledger.cgroups.records import CgroupUpdated
from kubeledger.verify.cgroups.values import Values, first_of, nested, recorded_of
from kubeledger.verify.finding import Fields, Verdict

__all__ = ["Judged", "Option", "judge"]


class Option(msgspec.Struct, frozen=True):
    """One way in which it can have gone.

    Attributes:
        values: what the files then hold.
        why: a clause on what gives them: "pod a/b requests 250m CPU, which are 256 shares".
        inputs: seqs of the records it rests on.
        fields: further fields of the record and the one value each can have.
    """

    values: Values
    why: str
    inputs: tuple[int, ...] = ()
    fields: Fields = {}


class Judged(msgspec.Struct, frozen=True):
    """What the comparison gave; ``verdict`` None where nothing could be compared."""

    verdict: Verdict | None
    expected: Fields
    recorded: Fields
    why: str
    inputs: tuple[int, ...]
    differing: tuple[str, ...] = ()


def judge(body: CgroupUpdated, options: Iterable[Option]) -> Judged:
    """Find the option that a record agrees with.

    Args:
        body: the record.
        options: (1 or more,) first the one that is decided again; any other is admissible.
            What comes behind the one that agrees is not looked at.
    """
    first: Option | None = None
    for index, option in enumerate(options):
        first = first or option
        recorded, differing = _differing(body, option)
        if not recorded:
            return Judged(None, {}, {}, "", option.inputs)
        if differing:
            continue
        exact = index == 0 and all(
            value == option.values[key][0]
            for key, value in recorded.items()
            if key in option.values
        )
        verdict: Verdict = "match" if exact else "admissible"
        expected = _expected(first, recorded)
        return Judged(verdict, expected, nested(recorded), option.why, option.inputs)
    assert first is not None
    option = first
    recorded, differing = _differing(body, option)
    expected = _expected(option, recorded)
    flat = _flat_expected(option, recorded)
    said = "; ".join(
        f"{_name(key)} is {_shown(recorded[key])} and had to be {_shown(flat[key])}"
        for key in differing
    )
    why = f"{said}: {option.why}"
    return Judged(
        "impossible", expected, nested(recorded), why, option.inputs, tuple(sorted(differing))
    )


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


def _flat_expected(option: Option, recorded: dict[str, Any]) -> dict[str, Any]:
    known = [key for key in recorded if key in option.values]
    return {**first_of(option.values, known), **option.fields}


def _expected(option: Option, recorded: dict[str, Any]) -> Fields:
    return nested(_flat_expected(option, recorded))


def _name(key: str) -> str:
    """As the kubelet's and the kernel's documentation call it."""
    field, _, file = key.partition("/")
    if field == "hugetlb_limit_bytes":
        return f"the limit of {file} huge pages"
    return file or {
        "cpu_shares": "cpu.shares",
        "cpu_quota_us": "the CPU quota",
        "cpu_period_us": "the CPU period",
        "memory_limit_bytes": "the memory limit",
        "qos_class": "the QoS class of the path",
        "cgroup": "the path",
    }.get(key, key)


def _shown(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
