"""Sets of CPUs: in the kubelet's notation (``0-3,7``), and as integers whose bit n is CPU n.

Deciders go through hundreds of sets a case, of machines with up to some hundred CPUs: on
integers, union, difference and size are one operation each.

Source: v1.30.1 k8s.io/utils/cpuset/cpuset.go Parse, String
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from kubeledger.kubelet.kube.gotexts import quoted

CPUSet = int
"""Bit n: CPU n is in it."""

CPU_MAX: Final = 999_999
"""The kubelet knows no limit, but a set with larger numbers would fill its memory."""

_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)


@lru_cache(maxsize=1 << 12)
def parse(text: str) -> CPUSet:
    """The set as written.

    Raises:
        ValueError: the text is no such set; with Go's words.
    """
    cpus = 0
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        start = _atoi(first)
        end = _atoi(last) if dash else start
        if start > end:
            raise ValueError(f"invalid range {quoted(part)} ({start} > {end})")
        if end > CPU_MAX:
            raise ValueError(f"CPU {end} is beyond {CPU_MAX}")
        cpus |= (2 << end) - (1 << start)
    return cpus


@lru_cache(maxsize=1 << 13)
def text_of(cpus: CPUSet) -> str:
    """The set as the kubelet writes it; ``""`` for none."""
    parts = []
    at = 0
    while cpus:
        skipped = (cpus & -cpus).bit_length() - 1
        at, cpus = at + skipped, cpus >> skipped
        run = (~cpus & (cpus + 1)).bit_length() - 1
        parts.append(f"{at}-{at + run - 1}" if run > 1 else str(at))
        at, cpus = at + run, cpus >> run
    return ",".join(parts)


def set_of(cpus: Iterable[int]) -> CPUSet:
    """The set with these CPUs, none of them below 0."""
    found = 0
    for cpu in cpus:
        found |= 1 << cpu
    return found


def cpus_in(cpus: CPUSet) -> list[int]:
    """(n,) the CPUs of a set, ascending."""
    found = []
    while cpus:
        lowest = cpus & -cpus
        found.append(lowest.bit_length() - 1)
        cpus ^= lowest
    return found


def cpus_of(text: str) -> frozenset[int]:
    """The CPUs of a set as written.

    Raises:
        ValueError: the text is no such set.
    """
    try:
        return frozenset(cpus_in(parse(text)))
    except ValueError:
        raise ValueError(f"{text!r} is not a set of CPUs") from None


def cpu_set_text(cpus: Iterable[int]) -> str:
    """The set as the kubelet writes it; ``""`` for none."""
    return text_of(set_of(cpus))


def _atoi(text: str) -> int:
    """``strconv.Atoi``.

    Raises:
        ValueError: with Go's text.
    """
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f"strconv.Atoi: parsing {quoted(text)}: invalid syntax")
    number = int(text)
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"strconv.Atoi: parsing {quoted(text)}: value out of range")
    return number
