"""Containers' lives on two nodes that differ in what their kubelets drew.

A kubelet adds up to half to the time after which it tries again (``workerResyncIntervalJitter``),
and begins probe workers somewhere in their period. So the n-th life of a container is compared
with the n-th of the other side, by the time since it began; how often a back-off was found to go
on is free, and so is where a draw decides what comes next: from there on a container's lives are
others. Each such place has to be as near to its border as draws can move it.
"""

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

import msgspec

from kubeledger.analyze.diff import Names
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S

KILLED, BACKED_OFF = "lifecycle.ContainerKilled", "lifecycle.RestartBackedOff"
RESTARTED = "lifecycle.ContainerRestarted"
KINDS = (KILLED, BACKED_OFF, RESTARTED, "prober.ProbeTransitioned")
"""Decisions of a container's life."""

FREE_NS = 16 * NS_PER_S
"""A retry after ten seconds and up to half of that, at the next full second."""
_WITHIN_NS = 12 * NS_PER_S
"""The longest period of a probe here, and a little."""
_RESYNC_S = 60
_TOLD = {"inferred", "told_by"}


class Item(msgspec.Struct, frozen=True):
    """A decision; ``ns`` since the first kubelet's start."""

    kind: str
    ns: int
    run: int
    fields: dict[str, Any]


class Life(msgspec.Struct):
    """A container's instance, and what came of it; times since the first kubelet's start.

    Attributes:
        run: kubelet process under which it began.
        items: probes and kills; ``held``: back-offs after it; ``restart``: the decision that
            began it, for the first life None.
    """

    began_ns: int
    run: int
    ended_ns: int | None = None
    items: list[Item] = []
    held: list[Item] = []
    restart: Item | None = None


class Side(msgspec.Struct):
    """One node: container -> lives; when each kubelet process but the first began, and the end."""

    lives: dict[tuple[str, str], list[Life]]
    cuts: list[int]

    def cut_ns(self, run: int) -> int:
        return self.cuts[run]

    def base_ns(self, life: Life, run: int) -> int:
        """From when times of a life count: its beginning, or that of another kubelet process."""
        return life.began_ns if life.run >= run else self.cuts[run - 1]


class Match(msgspec.Struct, frozen=True):
    """Two decisions, or one that the other side has not; ``free`` says why that may be."""

    container: tuple[str, str]
    recorded: Item | None
    simulated: Item | None
    apart_ns: int = 0
    free: str = ""


def histories_of(records: Iterable[Record], names: Names) -> Side:
    lives: dict[tuple[str, str], list[Life]] = {}
    ids: dict[str, Life] = {}
    cuts: list[int] = []
    began_ns, last_ns, run = None, 0, 0
    for record in records:
        body: Any = record.body
        if record.kind == "node.KubeletStarted":
            if began_ns is None:
                began_ns = record.ts_ns
            else:
                run += 1
                cuts.append(record.ts_ns - began_ns)
        if began_ns is None:
            continue
        last_ns = ns = record.ts_ns - began_ns
        name = getattr(body, "container", None)
        if name is None or getattr(body, "pod", None) is None or getattr(body, "sandbox", False):
            continue
        found = lives.setdefault((f"{body.namespace}/{body.pod}", name), [])
        container_id: str = getattr(body, "container_id", None) or ""
        if record.kind == "lifecycle.ContainerStarted" and container_id not in ids:
            ids[container_id] = Life(ns, run)
            found.append(ids[container_id])
        elif record.kind == "lifecycle.ContainerDied" and container_id in ids:
            ids[container_id].ended_ns = ns
        elif record.kind in KINDS and found:
            _, fields = names.comparable(record)
            kept = {k: v for k, v in fields.items() if k not in _TOLD}
            _keep(Item(record.kind, ns, run, kept), ids.get(container_id, found[-1]))
    return Side(lives, [*cuts, last_ns])


def _keep(item: Item, life: Life) -> None:
    if item.kind == BACKED_OFF:
        life.held.append(item)
    elif item.kind == RESTARTED:
        life.restart = item
    else:
        life.items.append(item)


def match(recorded: Side, simulated: Side) -> Iterator[Match]:
    """All decisions of all containers' lives."""
    for container in sorted(recorded.lives.keys() | simulated.lives.keys()):
        pair = recorded.lives.get(container, []), simulated.lives.get(container, [])
        yield from _Container(container, recorded, simulated).match(*pair)


class _Container:
    def __init__(self, name: tuple[str, str], recorded: Side, simulated: Side) -> None:
        self._name, self._sides = name, (recorded, simulated)
        self._free = ""

    def match(self, ours: list[Life], theirs: list[Life]) -> Iterator[Match]:
        """Life by life, until a draw decides."""
        for number, (one, two) in enumerate(zip_longest(ours, theirs)):
            if self._free or one is None or two is None:
                reason = self._free or self._ends(number, ours, theirs)
                yield from self._alone(one, 0, reason)
                yield from self._alone(two, 1, reason)
                continue
            if one.restart is not None or two.restart is not None:
                since = [each[number - 1].ended_ns for each in (ours, theirs)]
                bases = (one.began_ns, two.began_ns) if None in since else (since[0], since[1])
                yield self._pair(one.restart, two.restart, *bases)
            yield from self._inside(one, two)
            if one.run != two.run or self._ended_in(one) != self._ended_in(two):
                self._free = "the kubelet was started again in another life"
            yield from self._held(number, ours, theirs)

    def _ended_in(self, life: Life) -> int | None:
        if life.ended_ns is None:
            return None
        side = self._sides[0]
        return sum(life.ended_ns >= cut for cut in side.cuts[:-1])

    def _inside(self, one: Life, two: Life) -> Iterator[Match]:
        """Probes and kills, by the kubelet process."""
        runs = sorted({item.run for life in (one, two) for item in life.items})
        for run in runs:
            left = [item for item in one.items if item.run == run]
            right = [item for item in two.items if item.run == run]
            for a, b in zip_longest(left, right):
                bases = [s.base_ns(x, run) for s, x in zip(self._sides, (one, two), strict=True)]
                found = self._pair(a, b, *bases)
                if a is None or b is None:
                    found = msgspec.structs.replace(found, free=self._cut(a, b, one, two))
                yield found

    def _cut(self, a: Item | None, b: Item | None, one: Life, two: Life) -> str:
        """An item that one side has: the other's kubelet was stopped just before it."""
        item, own, other, side = (a, one, two, 1) if a is not None else (b, two, one, 0)
        assert item is not None
        if item.fields.get("run") is None and own.ended_ns is not None and item.ns > own.ended_ns:
            return "a new worker looked before the container ran again"
        if self._free:
            return self._free
        there, here = self._sides[side], self._sides[1 - side]
        due_ns = there.base_ns(other, item.run) + item.ns - here.base_ns(own, item.run)
        ends = there.cut_ns(item.run)
        return "the kubelet was stopped just before it" if due_ns + _WITHIN_NS >= ends else ""

    def _held(self, number: int, ours: list[Life], theirs: list[Life]) -> Iterator[Match]:
        """The back-off after a life: its length is the same, how often it was found is free."""
        one, two = ours[number], theirs[number]
        if one.held and two.held:
            for a, b in zip_longest(one.held, two.held):
                found = self._pair(a, b, one.held[0].ns, two.held[0].ns)
                alone = "" if a and b else "one more retry fell into the back-off"
                yield msgspec.structs.replace(found, free=self._free or alone)
        elif one.held or two.held:
            reason = self._free or self._border(number, ours, theirs)
            self._free = self._free or reason
            for item in one.held:
                yield Match(self._name, item, None, free=reason)
            for item in two.held:
                yield Match(self._name, None, item, free=reason)

    def _border(self, number: int, ours: list[Life], theirs: list[Life]) -> str:
        """One side found the back-off over, which counts from the end of the life before."""
        item = (ours[number].held or theirs[number].held)[0]
        length_ns = int(item.fields["back_off_s"]) * NS_PER_S
        for lives, cuts in ((ours, self._sides[0].cuts), (theirs, self._sides[1].cuts)):
            life = lives[number]
            asked_ns = life.held[0].ns if life.held else life.ended_ns
            if asked_ns is None or asked_ns + FREE_NS >= cuts[-1]:
                return "the end came before"
            if not number or (before_ns := lives[number - 1].ended_ns) is None:
                return ""
            over = asked_ns - before_ns >= length_ns
            if over == bool(life.held) or abs(asked_ns - before_ns - length_ns) > 2 * FREE_NS:
                return ""
        return f"the back-off of {length_ns // NS_PER_S} s was just over, or not yet"

    def _ends(self, number: int, ours: list[Life], theirs: list[Life]) -> str:
        """One side has another life: on the other one the end came before."""
        longer, shorter, side = (ours, theirs, 1) if len(ours) > len(theirs) else (theirs, ours, 0)
        if not number or number > len(longer) - 1 or number != len(shorter):
            return self._free
        due_ns = shorter[-1].began_ns + longer[number].began_ns - longer[number - 1].began_ns
        held = longer[number - 1].held
        length_s = int(held[0].fields["back_off_s"]) if held else 0
        slack_ns = max(FREE_NS, min(length_s, _RESYNC_S) * NS_PER_S // 2)
        if due_ns + slack_ns >= self._sides[side].cuts[-1]:
            self._free = "the end came before"
        return self._free

    def _alone(self, life: Life | None, side: int, reason: str) -> Iterator[Match]:
        for item in [] if life is None else [*life.items, *life.held, life.restart]:
            if item is not None:
                pair = (item, None) if side == 0 else (None, item)
                yield Match(self._name, pair[0], pair[1], free=reason)

    def _pair(self, a: Item | None, b: Item | None, a_ns: int | None, b_ns: int | None) -> Match:
        apart_ns = 0
        if None not in (a, b, a_ns, b_ns):
            apart_ns = (b.ns - b_ns) - (a.ns - a_ns)  # type: ignore[union-attr,operator]  # above
        return Match(self._name, a, b, apart_ns)
