"""Tables of episodes: what records add up to (``replay/episodes``), as rows for the views."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from kubeledger.model.record import Record
from kubeledger.replay.episodes.node_conditions import KINDS as CONDITION_KINDS
from kubeledger.replay.episodes.node_conditions import NodeConditions
from kubeledger.replay.episodes.pod_stages import KINDS as STAGE_KINDS
from kubeledger.replay.episodes.pod_stages import PodStages
from kubeledger.replay.episodes.safety import KINDS as SAFETY_KINDS
from kubeledger.replay.episodes.safety import Safety


class DerivedTable(NamedTuple):
    """A table that is made of one node's records.

    Attributes:
        room: its folder in a lake.
        columns: column -> type; ``node`` and ``seq`` first.
        kinds: of the records that it is made of.
        fold: makes what takes these records (``take``), in the order of the ledger.
        rows: what such a fold has come to; without ``node``.
    """

    room: str
    columns: dict[str, str]
    kinds: frozenset[str]
    fold: Callable[[], Any]
    rows: Callable[[Any], Iterable[dict[str, object]]]


class _Violations:
    """Keeps what the records show that cannot be."""

    def __init__(self) -> None:
        self._safety = Safety()
        self.found: list[dict[str, object]] = []

    def take(self, record: Record) -> None:
        for each in self._safety.take(record):
            row = msgspec.structs.asdict(each)
            self.found.append({**row, "seqs": [seq for seq, _ in each.sides]})


def _stages(fold: PodStages) -> Iterable[dict[str, object]]:
    return map(msgspec.structs.asdict, fold.episodes())


def _conditions(fold: NodeConditions) -> Iterable[dict[str, object]]:
    return map(msgspec.structs.asdict, fold.conditions())


def _troubles(fold: NodeConditions) -> Iterable[dict[str, object]]:
    return map(msgspec.structs.asdict, fold.troubles())


def folded(
    tables: Iterable[DerivedTable], read: Callable[[Collection[str]], Iterable[Record]]
) -> Iterator[tuple[DerivedTable, Iterable[dict[str, object]]]]:
    """The rows of some tables of one node, made in one pass over its records.

    Args:
        tables: those of one fold share it.
        read: gives the node's records of some kinds, in the order of the ledger.
    """
    tables = list(tables)
    folds = {table.fold: table.fold() for table in tables}
    takers: dict[str, list[Callable[[Record], object]]] = {}
    for make, kinds in {table.fold: table.kinds for table in tables}.items():
        for kind in kinds:
            takers.setdefault(kind, []).append(folds[make].take)
    for record in read(takers.keys()) if takers else ():
        for take in takers[record.kind]:
            take(record)
    for table in tables:
        yield table, table.rows(folds[table.fold])


_FIRST = {"node": "VARCHAR", "seq": "BIGINT", "ts_ns": "BIGINT"}

DERIVED: Mapping[str, DerivedTable] = {
    "stored.stages": DerivedTable(
        "stages",
        {
            **_FIRST,
            "namespace": "VARCHAR",
            "pod": "VARCHAR",
            "pod_uid": "VARCHAR",
            "container": "VARCHAR",
            "stage": "VARCHAR",
            "reason": "VARCHAR",
            "message": "VARCHAR",
            "about": "VARCHAR",
            "attempts": "BIGINT",
            "is_waiting": "BOOLEAN",
            "last_ts_ns": "BIGINT",
            "passed_ts_ns": "BIGINT",
            "passed_seq": "BIGINT",
            "ended_ts_ns": "BIGINT",
        },
        STAGE_KINDS,
        PodStages,
        _stages,
    ),
    "stored.conditions": DerivedTable(
        "conditions",
        {
            **_FIRST,
            "condition": "VARCHAR",
            "status": "VARCHAR",
            "reason": "VARCHAR",
            "message": "VARCHAR",
            "until_ts_ns": "BIGINT",
        },
        CONDITION_KINDS,
        NodeConditions,
        _conditions,
    ),
    "stored.troubles": DerivedTable(
        "troubles",
        {
            **_FIRST,
            "trouble": "VARCHAR",
            "message": "VARCHAR",
            "attempts": "BIGINT",
            "last_ts_ns": "BIGINT",
            "passed_ts_ns": "BIGINT",
        },
        CONDITION_KINDS,
        NodeConditions,
        _troubles,
    ),
    "stored.violated": DerivedTable(
        "violations",
        {
            **_FIRST,
            "invariant": "VARCHAR",
            "subject": "VARCHAR",
            "message": "VARCHAR",
            "seqs": "BIGINT[]",
            "bugs": "VARCHAR[]",
        },
        SAFETY_KINDS,
        _Violations,
        attrgetter("found"),
    ),
}
"""Name in the schema ``stored`` -> table."""
