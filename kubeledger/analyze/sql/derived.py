"""Tables of episodes: what records add up to (``replay/episodes``), as rows for the views."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kubeledger.model.record import Record

if TYPE_CHECKING:
    from kubeledger.replay.episodes.node_conditions import NodeConditions
    from kubeledger.replay.episodes.pod_stages import PodStages


class Episodes(NamedTuple):
    """How records are folded into episodes.

    Attributes:
        kinds: of the records that count.
        fold: makes what takes these records (``take``), in the order of the ledger.
    """

    kinds: frozenset[str]
    fold: Callable[[], Any]


class DerivedTable(NamedTuple):
    """A table that is made of one node's records.

    Attributes:
        room: its folder in a lake.
        columns: column -> type; ``node`` and ``seq`` first.
        episodes: loads what it is made by: a question that names no such table needs none of it.
        rows: what such a fold has come to; without ``node``.
    """

    room: str
    columns: dict[str, str]
    episodes: Callable[[], Episodes]
    rows: Callable[[Any], Iterable[dict[str, object]]]


def _pod_stages() -> Episodes:
    from kubeledger.replay.episodes.pod_stages import KINDS, PodStages

    return Episodes(KINDS, PodStages)


def _node_conditions() -> Episodes:
    from kubeledger.replay.episodes.node_conditions import KINDS, NodeConditions

    return Episodes(KINDS, NodeConditions)


def _safety() -> Episodes:
    from kubeledger.replay.episodes.safety import KINDS

    return Episodes(KINDS, _Violations)


class _Violations:
    """Keeps what the records show that cannot be."""

    def __init__(self) -> None:
        from kubeledger.replay.episodes.safety import Safety

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
        tables: those of the same episodes share it.
        read: gives the node's records of some kinds, in the order of the ledger.
    """
    tables = list(tables)
    folds: dict[Callable[[], Episodes], Any] = {}
    takers: dict[str, list[Callable[[Record], object]]] = {}
    for load in {table.episodes: None for table in tables}:
        kinds, make = load()
        folds[load] = make()
        for kind in kinds:
            takers.setdefault(kind, []).append(folds[load].take)
    for record in read(takers.keys()) if takers else ():
        for take in takers[record.kind]:
            take(record)
    for table in tables:
        yield table, table.rows(folds[table.episodes])


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
        _pod_stages,
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
        _node_conditions,
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
        _node_conditions,
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
        _safety,
        attrgetter("found"),
    ),
}
"""Name in the schema ``stored`` -> table."""
