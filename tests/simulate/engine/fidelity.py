"""Compare a simulated node with the recorded one: decisions, their order, their times."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from kubeledger.analyze.diff import NAMING_KINDS, Names
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from tests.simulate.engine.pod_histories import KINDS, Item, histories_of, match

PULLS = "imagepull."
"""Kinds that follow each start of a container; compared by :func:`pulls`."""
_TOLD = {"inferred", "preemptor_inferred", "told_by", "sandbox", "changed"}
"""Fields that say how a log shows a decision, or that a log does not show."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """The n-th decision of a kind about a subject on both sides.

    Attributes:
        number: n, from 1.
        recorded_ns, simulated_ns: since the first kubelet's start; None on the side that has
            no such decision.
        fields: field -> (recorded, simulated), where they differ.
        free: why a draw may make them differ; empty where they may not.
    """

    kind: str
    subject: str
    number: int
    recorded_ns: int | None
    simulated_ns: int | None
    fields: dict[str, tuple[Any, Any]] = {}
    free: str = ""
    apart_ns: int = 0

    @property
    def apart_s(self) -> float:
        """Seconds by which the simulated one is late, in a container's life since it began."""
        return self.apart_ns / NS_PER_S


class Compared(msgspec.Struct, frozen=True):
    kind: str
    pairs: list[Pair]

    @property
    def same(self) -> list[Pair]:
        """On both sides, with the same fields."""
        return [p for p in self.both if not p.fields and not p.free]

    @property
    def both(self) -> list[Pair]:
        return [p for p in self.pairs if None not in (p.recorded_ns, p.simulated_ns)]

    @property
    def odd(self) -> list[Pair]:
        """All others that no draw explains."""
        return [p for p in self.pairs if not p.free and (p not in self.both or p.fields)]

    @property
    def free(self) -> list[Pair]:
        return [p for p in self.pairs if p.free]


_Told = tuple[int, dict[str, Any]]


def _decisions(records: Iterable[Record]) -> dict[tuple[str, str], list[_Told]]:
    kept = list(records)
    names = Names(record for record in kept if record.kind in NAMING_KINDS)
    began = next(record.ts_ns for record in kept if record.kind == "node.KubeletStarted")
    found: dict[tuple[str, str], list[_Told]] = {}
    for record in kept:
        if record.role == "decision" and not record.kind.startswith(PULLS):
            subject, body = names.comparable(record)
            subject = body.get("cgroup") or subject
            fields = {k: v for k, v in body.items() if k not in _TOLD}
            found.setdefault((record.kind, subject), []).append((record.ts_ns - began, fields))
    return found


def compare(recorded: Iterable[Record], simulated: Iterable[Record]) -> list[Compared]:
    """The n-th decision of each kind about each subject with the n-th of the other side.

    Of what is decided about a container, the n-th in its n-th instance: see ``pod_histories``.

    Args:
        recorded: records of the real node.
        simulated: records of the simulated one.

    Returns:
        by kind, sorted.
    """
    ours, theirs = list(recorded), list(simulated)
    a, b = _decisions(ours), _decisions(theirs)
    kinds: dict[str, list[Pair]] = {kind: [] for kind in KINDS}
    for pair in _in_lives(ours, theirs):
        kinds[pair.kind].append(pair)
    for kind, subject in sorted(a.keys() | b.keys()):
        if kind in KINDS:
            continue
        left, right = a.get((kind, subject), []), b.get((kind, subject), [])
        for number in range(max(len(left), len(right))):
            one = left[number] if number < len(left) else None
            two = right[number] if number < len(right) else None
            kinds.setdefault(kind, []).append(
                Pair(
                    kind=kind,
                    subject=subject,
                    number=number + 1,
                    recorded_ns=one[0] if one else None,
                    simulated_ns=two[0] if two else None,
                    fields=_differing(one[1], two[1]) if one and two else {},
                    apart_ns=two[0] - one[0] if one and two else 0,
                )
            )
    return [Compared(kind, pairs) for kind, pairs in sorted(kinds.items())]


def _in_lives(recorded: list[Record], simulated: list[Record]) -> Iterator[Pair]:
    sides = [
        histories_of(records, Names(r for r in records if r.kind in NAMING_KINDS))
        for records in (recorded, simulated)
    ]
    numbers: Counter[tuple[str, tuple[str, str]]] = Counter()
    for each in match(*sides):
        one, two = each.recorded, each.simulated
        kind = (one or two or Item("", 0, 0, {})).kind
        numbers[kind, each.container] += 1
        fields: dict[str, tuple[Any, Any]] = {}
        if one and two and not each.free:
            fields = _differing({"kind": one.kind, **one.fields}, {"kind": two.kind, **two.fields})
        yield Pair(
            kind=kind,
            subject="/".join(each.container),
            number=numbers[kind, each.container],
            recorded_ns=one.ns if one else None,
            simulated_ns=two.ns if two else None,
            fields=fields,
            free=each.free,
            apart_ns=each.apart_ns,
        )


def _differing(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {
        key: (a.get(key), b.get(key))
        for key in sorted(a.keys() | b.keys())
        if a.get(key) != b.get(key)
    }


def pulls(records: Iterable[Record]) -> dict[str, list[str]]:
    """Container -> what was decided about its image and what came of it, in order.

    How often it was decided again is a draw's choice. That an image is there is told by kubelets
    that verify who may use it; a simulated one tells it only where it was asked.
    """
    found: dict[str, list[str]] = {}
    for record in records:
        body: Any = record.body
        if record.kind.startswith(PULLS) and record.role == "decision":
            told = getattr(body, "decision", None) or body.outcome
            before = found.setdefault(f"{body.pod}/{body.container}", [])
            if told not in ("present", *before[-1:]):
                before.append(told)
    return {container: each for container, each in found.items() if each}


def orders(records: Iterable[Record]) -> dict[str, list[str]]:
    """Pod -> what was decided about it, in order: kind, container and what came out of it.

    What is decided in containers' lives is left out: that they are matched in order is shown
    where they are compared.
    """
    found: dict[str, list[str]] = {}
    for record in records:
        body: Any = record.body
        pod = getattr(body, "pod", None) or getattr(body, "victim_pod", None)
        is_apart = record.kind in KINDS or record.kind.startswith(PULLS)
        if record.role != "decision" or pod is None or is_apart:
            continue
        reported = [record.kind.rpartition(".")[2]]
        for name in ("container", "resource"):
            value = getattr(body, name, None)
            if value is not None:
                reported.append(str(value))
        decided = found.setdefault(pod, [])
        decided.append(" ".join(reported))
        if reported[0] == "AllocationFailed" and decided[-2:-1] == ["PodRejected"]:
            # One line tells both: of 1.20 the log has the refusal of the pod alone.
            decided[-2:] = reversed(decided[-2:])
    return found


def table(compared: Iterable[Compared]) -> str:
    head = f"{'kind':38}{'same':>6}{'differs':>9}{'only rec.':>11}{'only sim.':>11}{'free':>7}"
    head += f"{'apart':>9}"
    lines = [head]
    for each in compared:
        only_recorded = sum(p.simulated_ns is None and not p.free for p in each.pairs)
        only_simulated = sum(p.recorded_ns is None and not p.free for p in each.pairs)
        differ = sum(bool(p.fields) for p in each.both)
        apart = max((abs(p.apart_s) for p in each.both), default=0.0)
        lines.append(
            f"{each.kind:38}{len(each.same):6}{differ:9}"
            f"{only_recorded:11}{only_simulated:11}{len(each.free):7}{apart:8.2f}s"
        )
    return "\n".join(lines)
