"""Tables of episodes: what records add up to (``replay/episodes``), as rows for the views."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from kubeledger.model.record import Record
from kubeledger.replay.episodes import node_conditions, pod_stages, safety


class DerivedTable(NamedTuple):
    """A table that is made of one node's records.

    Attributes:
        room: its folder in a lake.
        columns: column -> type; ``node`` and ``seq`` first.
        kinds: of the records that it is made of.
        rows: from these records, in the order of the ledger; without ``node``.
    """

    room: str
    columns: dict[str, str]
    kinds: frozenset[str]
    rows: Callable[[Iterable[Record]], Iterator[dict[str, object]]]


def _stages(records: Iterable[Record]) -> Iterator[dict[str, object]]:
    return map(msgspec.structs.asdict, pod_stages.stage_episodes(records))


def _conditions(records: Iterable[Record]) -> Iterator[dict[str, object]]:
    return map(msgspec.structs.asdict, node_conditions.node_conditions(records).conditions())


def _troubles(records: Iterable[Record]) -> Iterator[dict[str, object]]:
    return map(msgspec.structs.asdict, node_conditions.node_conditions(records).troubles())


def _violations(records: Iterable[Record]) -> Iterator[dict[str, object]]:
    for each in safety.violations(records):
        yield {**msgspec.structs.asdict(each), "seqs": [seq for seq, _ in each.sides]}


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
        pod_stages.KINDS,
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
        node_conditions.KINDS,
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
        node_conditions.KINDS,
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
        safety.KINDS,
        _violations,
    ),
}
"""Name in the schema ``stored`` -> table."""
