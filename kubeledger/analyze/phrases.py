"""Amounts, names, spans and messages in few words, for headlines."""

from __future__ import annotations

from collections.abc import Sequence

from kubeledger.analyze.sql.shorten import cut, short_words
from kubeledger.model.units import NS_PER_S

_UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_NAMES_MAX = 3
_NAMES_SHOWN = 2
TEXT_MAX = 80
_CAUSE_MIN = 30
"""Less (``no such file or directory``) says nothing without what stands before it."""


def bytes_text(count: int) -> str:
    """Three digits: ``184 GB``, ``9.0 MB``."""
    for size, unit in _UNITS:
        if count >= size:
            value = count / size
            return f"{value:.0f} {unit}" if value >= 99.95 else f"{value:.1f} {unit}"
    return f"{count} B"


def missing_text(insufficient: str) -> str:
    """``cpu=450, memory=1000`` (the views' form) as ``450m cpu, 1.0 kB memory``."""
    return ", ".join(_missing(*each.partition("=")[::2]) for each in insufficient.split(", "))


def _missing(resource: str, amount: str) -> str:
    if not amount.isdecimal():
        return f"{amount} {resource}".strip()
    if resource == "cpu":
        return f"{amount}m cpu"
    if resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-"):
        return f"{bytes_text(int(amount))} {resource}"
    return f"{amount} {resource}"


def names_text(names: Sequence[str]) -> str:
    """Up to three names, of more the first two and how many more; each once."""
    once = list(dict.fromkeys(names))
    if len(once) <= _NAMES_MAX:
        return ", ".join(once)
    return f"{', '.join(once[:_NAMES_SHOWN])} and {len(once) - _NAMES_SHOWN} more"


def shortened(message: str) -> str:
    """The end of a chain of errors, which is their cause, cut where it is long."""
    cause = message.strip().splitlines()[0] if message.strip() else "no message"
    while len(cause) > TEXT_MAX and len(rest := cause.partition(": ")[2]) >= _CAUSE_MIN:
        cause = rest
    if cause.count('"') % 2 or '\\"' in cause:  # the end of a chain that was quoted
        cause = cause.rstrip('"\\])} ')
    return cut(short_words(cause.strip(), TEXT_MAX), TEXT_MAX)


def pods_text(names: Sequence[str]) -> str:
    """The pod's whole name, or how many and the first ones' bare names."""
    once = list(dict.fromkeys(names))
    if len(once) == 1:
        return once[0]
    bare = names_text([name.rpartition("/")[2] for name in once])
    return bare if len(once) == 2 else f"{len(once)} pods ({bare})"


def times_text(count: int) -> str:
    """`` 3×``; empty for once."""
    return f" {count}×" if count > 1 else ""


def span_text(span_ns: int) -> str:
    """``2m31s``, ``45s``: two units at most, as ``kubectl`` writes them."""
    seconds = span_ns // NS_PER_S
    for unit_s, unit, part_s, part in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if seconds >= unit_s:
            rest = seconds % unit_s // part_s
            return f"{seconds // unit_s}{unit}" + (f"{rest}{part}" if rest else "")
    return f"{seconds}s"
