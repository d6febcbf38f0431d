"""Values of one cgroup's files as the kernel shows them after what was asked for.

What is asked for is not always what a file then holds: no quota is ``-1``, a memory limit is
cut to whole pages, and cgroup v2 has a weight in the place of shares. Where machines or
runtimes differ, several values are possible; the first is what most show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kubeledger.kubelet.cgroups.conversions import (
    QUOTA_PERIOD_US,
    weight_of_shares,
    weight_of_shares_curved,
)
from kubeledger.kubelet.cgroups.state import CgroupState
from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.verify.finding import Fields

__all__ = ["NO_LIMIT_V1", "Values", "is_unified", "kernel_values", "keys_of", "nested", "value_of"]

Values = dict[str, Sequence[Any]]
"""``field`` or ``field/file`` of a cgroup's record -> (1 or more,) what it may hold."""

_FIELDS: Final = ("cpu_shares", "cpu_quota_us", "cpu_period_us", "memory_limit_bytes")
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
        unified: cgroup v2.
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
    values: Values = {
        "cpu_quota_us": quotas,
        "cpu_period_us": periods,
        "memory_limit_bytes": limits,
    }
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
