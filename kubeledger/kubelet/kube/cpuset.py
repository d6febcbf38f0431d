"""Sets of CPUs in the kubelet's notation: ``0-3,7``.

Source: v1.30.1 k8s.io/utils/cpuset/cpuset.go Parse, String
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_PART = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")


def cpus_of(text: str) -> frozenset[int]:
    """The CPUs of a set as written.

    Raises:
        ValueError: the text is no such set.
    """
    cpus: set[int] = set()
    for part in text.split(",") if text else ():
        match = _PART.fullmatch(part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(f"{text!r} is not a set of CPUs")
        cpus.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(cpus)


def cpu_set_text(cpus: Iterable[int]) -> str:
    """The set as the kubelet writes it; ``""`` for none."""
    parts: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if parts and parts[-1][1] == cpu - 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
