"""Drift: values in cgroup files that are not what the pods ask for, out of a verification."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.verify.finding import Fields, Finding


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """One value that cannot be there.

    Attributes:
        seq, ts_ns: the record that shows it, and its time.
        place: its evidence, ``file:line``.
        cgroup: path below the controller.
        value: field of the record, with the file's name where the field holds several
            (``cpu_shares``, ``unified/cpu.weight``).
        expected: what the pods ask for.
        found: what the file holds; None where it holds what it did before, and had to change.
        why: one sentence.
    """

    seq: int
    ts_ns: int
    place: str
    cgroup: str
    value: str
    expected: Any
    found: Any
    why: str


def drift_of(finding: Finding) -> Iterator[Drift]:
    """The values of a cgroup that cannot be; none for a finding about anything else."""
    if finding.kind != CgroupUpdated.kind or finding.verdict != "impossible":
        return
    found = dict(_flat(finding.recorded or {}))
    for value, expected in _flat(finding.expected or {}):
        if finding.recorded is None or found.get(value, expected) != expected:
            yield Drift(
                seq=finding.seq,
                ts_ns=finding.ts_ns,
                place=finding.place,
                cgroup=finding.subject.removeprefix("cgroup/"),
                value=value,
                expected=expected,
                found=found.get(value),
                why=finding.why,
            )


def _flat(fields: Fields) -> Iterator[tuple[str, Any]]:
    for field, value in fields.items():
        if isinstance(value, dict):
            yield from ((f"{field}/{file}", text) for file, text in value.items())
        else:
            yield field, value
