"""Values of one cgroup's files as the kernel shows them after what was asked for.

What is asked for is not always what a file then holds: no quota is ``-1``, a memory limit is
cut to whole pages, and cgroup v2 has a weight in the place of shares. Where machines or
runtimes differ, several values are possible; the first is what most show.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from kubeledger.cgroups.conversions import (
    QUOTA_PERIOD_US,
    weight_of_shares,
    weight_of_shares_curved,
)
from kubeledger.cgroups.records import CgroupUpdated
from kubeledger.verify.finding import Fields

__all__ = [
    "NO_LIMIT_V1",
    "Values",
    "first_of",
    "is_unified",
    "kernel_values",
    "keys_of",
    "nested",
    "recorded_of",
]

Values = dict[str, Sequence[Any]]
"""``field`` or ``field/file`` of a cgroup's record -> (1 or more,) what it may hold."""

_FIELDS: Final = ("cpu_shares", "cpu_quota_us", "cpu_period_us", "memory_limit_bytes")

_PAGES: Final = (4096, 16384, 65536)
"""Page sizes of the machines that kubelets run on; nearly all have the first."""

NO_LIMIT_V1: Final = tuple((2**63 - 1) // page * page for page in _PAGES)
_NO_LIMIT_V2: Final = (-1,)
_NO_QUOTA: Final = -1
_SYSTEMD_STEP_US: Final = 10_000


def is_unified(body: CgroupUpdated) -> bool:
    """Whether the files are those of cgroup v2."""
    return bool(body.unified)


def kernel_values(
    *,
    unified: bool,
    shares: Iterable[int],
    quota_us: Iterable[int | None],
    period_us: int | None,
    memory: int | None,
    by_runtime: bool = False,
    by_systemd: bool = False,
    files: dict[str, str] | None = None,
) -> Values:
    """The files of a cgroup that was made for what is asked for.

    Args:
        unified: cgroup v2.
        shares: (1 or more,) CPU shares.
        quota_us: (1 or more,) None, 0 and -1 are no quota.
        period_us: None where it is not written.
        memory: limit in bytes; None and 0 are no limit.
        by_runtime: the runtime writes them, whose weights may follow the newer formula.
        by_systemd: systemd writes them, too, and rounds a quota up to 10 ms a second.
        files: of cgroup v2, by name -> text.
    """
    quotas = _quotas(quota_us, period_us, by_systemd=by_systemd)
    periods = _distinct([period_us or QUOTA_PERIOD_US])
    if by_systemd or quotas == (_NO_QUOTA,):
        periods = _distinct([*periods, QUOTA_PERIOD_US])
    limits = _limits(memory, unified=unified)
    values: Values = {
        "cpu_quota_us": quotas,
        "cpu_period_us": periods,
        "memory_limit_bytes": limits,
    }
    if not unified:
        values["cpu_shares"] = _distinct(shares)
        return values
    formulas = (weight_of_shares, weight_of_shares_curved)[: 2 if by_runtime else 1]
    values["unified/cpu.weight"] = _distinct(str(f(s)) for s in shares for f in formulas)
    values["unified/cpu.max"] = tuple(
        f"{'max' if quota == _NO_QUOTA else quota} {period}"
        for quota in quotas
        for period in periods
    )
    values["unified/memory.max"] = tuple(
        "max" if limit == _NO_QUOTA else str(limit) for limit in limits
    )
    for name, text in (files or {}).items():
        values[f"unified/{name}"] = (text,)
    return values


def _quotas(
    asked: Iterable[int | None], period_us: int | None, *, by_systemd: bool
) -> tuple[int, ...]:
    quotas = [quota if quota and quota > 0 else _NO_QUOTA for quota in asked]
    if by_systemd and period_us:
        for quota in [quota for quota in quotas if quota > 0]:
            per_second = -(-quota * 1_000_000 // period_us)
            per_second = -(-per_second // _SYSTEMD_STEP_US) * _SYSTEMD_STEP_US
            quotas.append(per_second * period_us // 1_000_000)
            quotas.append(per_second * QUOTA_PERIOD_US // 1_000_000)
    return _distinct(quotas)


def _limits(memory: int | None, *, unified: bool) -> tuple[int, ...]:
    if not memory or memory < 0:
        return _NO_LIMIT_V2 if unified else NO_LIMIT_V1
    most = NO_LIMIT_V1[0]
    if memory > most:
        return _NO_LIMIT_V2 if unified else NO_LIMIT_V1
    return _distinct(memory // page * page for page in _PAGES)


def _distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values))


def recorded_of(body: CgroupUpdated, keys: Iterable[str]) -> dict[str, Any]:
    """What the record holds under the keys of ``Values``, without what it does not hold."""
    found: dict[str, Any] = {}
    for key in keys:
        field, _, file = key.partition("/")
        value = getattr(body, field)
        if file:
            value = value.get(file)
        if value is not None:
            found[key] = value
    return found


def keys_of(body: CgroupUpdated) -> list[str]:
    """``field`` or ``field/file`` of all values that a record holds."""
    keys = [field for field in _FIELDS if getattr(body, field) is not None]
    for field in ("hugetlb_limit_bytes", "unified", "other"):
        keys += [f"{field}/{file}" for file in getattr(body, field)]
    return keys


def first_of(values: Values, keys: Sequence[str]) -> dict[str, Any]:
    """The most common value under each key."""
    return {key: values[key][0] for key in keys}


def nested(flat: dict[str, Any]) -> Fields:
    """The same with files below their fields, as in a record's body."""
    fields: Fields = {}
    for key, value in flat.items():
        field, _, file = key.partition("/")
        if file:
            fields.setdefault(field, {})[file] = value
        else:
            fields[field] = value
    return fields
