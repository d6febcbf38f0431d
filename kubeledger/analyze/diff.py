"""Differences between the decisions and episodes of two histories, and between two states."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any, Literal

import msgspec

from kubeledger.analyze.histories.history import History
from kubeledger.analyze.summaries import subject_of
from kubeledger.kubelet.kube.resources import UID
from kubeledger.model.bodies.lifecycle import ContainerRestarted, ContainerStarted, PodListed
from kubeledger.model.record import Record
from kubeledger.replay.episodes import node_conditions, pod_stages
from kubeledger.replay.episodes.node_conditions import (
    ConditionEpisode,
    NodeConditions,
    TroubleEpisode,
)
from kubeledger.replay.episodes.pod_stages import PodStages, StageEpisode
from kubeledger.replay.node.state import NodeState, canonical_json

NAMING_KINDS = frozenset(
    {PodListed.kind, "lifecycle.PodConfigChanged", ContainerStarted.kind, ContainerRestarted.kind}
)
"""Kinds of records that show which name an ID stands for."""

_ID = re.compile(
    # After ``pod``, as in names of cgroups, too: its last letter is no digit of the ID.
    rf"(?<!po)(?:[0-9a-f]{{64}}|{UID})"
)


class Names:
    """Names of the IDs of one history."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._names: dict[str, str] = {}
        for record in records:
            body: Any = record.body
            pod = f"{body.namespace}/{body.pod}"
            if body.pod_uid:
                self._names[body.pod_uid] = f"<{pod}>"
            if getattr(body, "container_id", None):
                container = getattr(body, "container", None) or "sandbox"
                self._names[body.container_id] = f"<{pod}/{container}>"

    def comparable(self, record: Record) -> tuple[str, dict[str, Any]]:
        """Subject and body of a record, with names in place of IDs."""
        body = self.named(msgspec.to_builtins(record.body))
        return self._text(subject_of(body)), body

    def named(self, value: Any) -> Any:  # noqa: ANN401 # any JSON value
        """The same value with names in place of IDs."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {self._text(key): self.named(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.named(item) for item in value]
        return value

    def _text(self, text: str) -> str:
        return _ID.sub(self._name, text) if len(text) >= 32 else text

    def _name(self, match: re.Match[str]) -> str:
        found = match[0]
        return self._names.get(found) or self._names.get(found.replace("_", "-")) or found


class Place(msgspec.Struct, frozen=True):
    """A decision on one side."""

    seq: int
    ts_ns: int
    file: str | None
    line: int | None


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A decision, or an episode, that the two sides do not share.

    Attributes:
        what: ``only_in_a``, ``only_in_b`` or ``differs``.
        kind: of a decision; ``stage image``, ``condition Ready``, ``trouble runtime_down``.
        occurrence: from 1: which one of this kind about this subject it is.
        a, b: where it stands; None where it is not.
        fields: field -> (value in a, value in b); of all fields that hold something when it
            is only on one side.
    """

    what: Literal["only_in_a", "only_in_b", "differs"]
    kind: str
    subject: str
    occurrence: int
    a: Place | None
    b: Place | None
    fields: dict[str, tuple[Any, Any]]

    @property
    def ts_ns(self) -> int:
        """When: on side a, if it is there."""
        place = self.a or self.b
        return place.ts_ns if place else 0


class StateDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A value that two states do not share; the missing side is None."""

    path: str
    a: Any
    b: Any


_Key = tuple[str, str]
_Entry = tuple[Place, dict[str, Any]]


def diff_decisions(a: History, b: History, *, exact: bool = False) -> list[Difference]:
    """Compare decisions, then episodes: the n-th of a kind about a subject with the other n-th.

    Args:
        exact: compare UIDs, container IDs and times, too.

    Returns:
        differences in the order of time on side a; empty when there are none. Memory grows
        with the differences, and with how far one side is ahead of the other.
    """
    waiting: tuple[dict[_Key, deque[_Entry]], ...] = ({}, {})
    counts: dict[_Key, int] = {}
    found: list[Difference] = []
    for pair in zip_longest(_entries(a, exact), _entries(b, exact)):
        for side, entry in enumerate(pair):
            if entry is None:
                continue
            key, place, body = entry
            others = waiting[1 - side].get(key)
            if not others:
                waiting[side].setdefault(key, deque()).append((place, body))
                continue
            counts[key] = counts.get(key, 0) + 1
            mine, theirs = (place, body), others.popleft()
            if not others:
                del waiting[1 - side][key]
            sides = (mine, theirs) if side == 0 else (theirs, mine)
            found += _difference(key, counts[key], *sides)
    for side, left in enumerate(waiting):
        for key, entries in left.items():
            for number, entry in enumerate(entries, start=counts.get(key, 0) + 1):
                found += _difference(key, number, *((None, entry) if side else (entry, None)))
    return sorted(found, key=lambda difference: (difference.ts_ns, difference.kind))


def _entries(history: History, exact: bool) -> Iterator[tuple[_Key, Place, dict[str, Any]]]:
    names = Names(() if exact else history.read(NAMING_KINDS))
    for record in history.read(None):
        if record.role == "decision":
            subject, body = names.comparable(record)
            if exact:
                body["ts_ns"] = record.ts_ns
            yield (record.kind, subject), _place(record), body
    yield from _episodes(history, names, exact)


_TOLD_BY_DECISIONS = "admission"


def _episodes(
    history: History, names: Names, exact: bool
) -> Iterator[tuple[_Key, Place, dict[str, Any]]]:
    """In which stages pods were stuck, conditions of the node, and what of it did not work."""
    stages, conditions = PodStages(), NodeConditions()
    for record in history.read(pod_stages.KINDS | node_conditions.KINDS):
        stages.take(record)
        conditions.take(record)
    for stage in stages.episodes():
        if stage.stage != _TOLD_BY_DECISIONS:
            ends = {"passed": stage.passed_ts_ns, "ended": stage.ended_ts_ns}
            end = next((word for word, ts_ns in ends.items() if ts_ns is not None), "open")
            subject = "/".join(filter(None, (stage.namespace, stage.pod, stage.container)))
            yield _episode(f"stage {stage.stage}", subject, stage, names, exact, end=end)
    for condition in conditions.conditions():
        kind = f"condition {condition.condition}"
        yield _episode(kind, "", condition, names, exact, status=condition.status)
    for trouble in conditions.troubles():
        yield _episode(f"trouble {trouble.trouble}", "", trouble, names, exact)


def _episode(
    kind: str,
    subject: str,
    episode: StageEpisode | ConditionEpisode | TroubleEpisode,
    names: Names,
    exact: bool,
    **more: str,
) -> tuple[_Key, Place, dict[str, Any]]:
    told = {name: getattr(episode, name, None) for name in ("reason", "message", "about")}
    body = names.named({**told, **more})
    if exact:
        body |= {"ts_ns": episode.ts_ns}
    return (kind, subject), Place(episode.seq, episode.ts_ns, None, None), body


def _place(record: Record) -> Place:
    first = record.evidence[0] if record.evidence else None
    return Place(
        seq=record.seq,
        ts_ns=record.ts_ns,
        file=first.file if first else None,
        line=first.line if first else None,
    )


def _difference(key: _Key, number: int, a: _Entry | None, b: _Entry | None) -> Iterator[Difference]:
    """The fields that are not the same; none where both are there and alike."""
    in_a, in_b = ({} if entry is None else entry[1] for entry in (a, b))
    names = sorted(in_a.keys() | in_b.keys())
    values = {name: (in_a.get(name), in_b.get(name)) for name in names}
    fields = {name: (one, other) for name, (one, other) in values.items() if one != other}
    if fields or a is None or b is None:
        yield Difference(
            what="only_in_b" if a is None else "only_in_a" if b is None else "differs",
            kind=key[0],
            subject=key[1],
            occurrence=number,
            a=None if a is None else a[0],
            b=None if b is None else b[0],
            fields=fields,
        )


def diff_states(a: NodeState, b: NodeState) -> list[StateDifference]:
    """Values that differ, by their path in ``state -o json``, sorted."""
    left, right = (msgspec.json.decode(canonical_json(state)) for state in (a, b))
    return list(_walk("", left, right))


def _walk(path: str, a: Any, b: Any) -> Iterator[StateDifference]:  # noqa: ANN401 # any JSON value
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(a.keys() | b.keys()):
            yield from _walk(f"{path}.{key}" if path else key, a.get(key), b.get(key))
    elif a != b:
        yield StateDifference(path=path, a=a, b=b)
