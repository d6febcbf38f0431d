"""From a lake to the rows of the fleet's page: a few queries over all nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

import msgspec

from kubeledger.analyze.sql.api import Queryable
from kubeledger.fleet.query import connect_lake
from kubeledger.fleet.report.columns import COLUMNS, PROBLEMS, Column, Outstanding, outstanding

_HOUR_NS = 3_600_000_000_000
_TIMEOUT_S = 6 * 3600.0
"""Nobody waits at a prompt: of a large lake on slow storage it takes what it takes."""


class NodeFacts(msgspec.Struct, kw_only=True):
    """A row.

    Attributes:
        node, name, pool: as in the lake; None: not known.
        versions: (n,) of its kubelets, the last one last.
        first_ns, last_ns: span of its records; None: there are none.
        decisions, match, admissible, inferred: counts of verdicts; the others are in ``counts``.
        counts: column -> how many, see ``COLUMNS``.
        hours: hour since the epoch -> (problems, impossible decisions), where there are any.
        outstanding: column -> how far above what its pool lets expect.
        peers: nodes of its pool that it was compared with, itself included.
    """

    node: str
    name: str
    pool: str | None = None
    versions: tuple[str, ...] = ()
    first_ns: int | None = None
    last_ns: int | None = None
    decisions: int = 0
    match: int = 0
    admissible: int = 0
    inferred: int = 0
    lines: int = 0
    counts: dict[str, int] = {}
    hours: dict[int, tuple[int, int]] = {}
    outstanding: dict[str, Outstanding] = {}
    peers: int = 0

    @property
    def span_h(self) -> float:
        """Hours of records."""
        if self.first_ns is None or self.last_ns is None:
            return 0.0
        return (self.last_ns - self.first_ns) / _HOUR_NS

    @property
    def problems(self) -> int:
        """All of ``PROBLEMS``."""
        return sum(self.counts[problem] for problem in PROBLEMS)


class FailureFacts(msgspec.Struct, frozen=True):
    """Sources that are not in the lake for one reason.

    Attributes:
        kind, reason, advice: as of :class:`kubeledger.fleet.types.Failure`.
        sources: (n,) the first of them.
    """

    kind: str
    reason: str
    advice: str
    sources: tuple[str, ...]
    count: int


class FleetFacts(msgspec.Struct, frozen=True):
    """What the page shows: nodes, worst first, and failures, the most frequent first."""

    nodes: list[NodeFacts]
    failures: list[FailureFacts]


def collect(lake: str, *, report: Callable[[str], None] = lambda _: None) -> FleetFacts:
    """Ask a lake.

    Raises:
        BadQuestionError: there is none.
        KubeledgerError: it cannot be read.
    """
    with connect_lake(lake, timeout_s=_TIMEOUT_S) as queryable:
        report("reading the nodes")
        nodes = _nodes(queryable)
        report("counting what went wrong")
        _count(queryable, nodes)
        failures = [
            FailureFacts(kind, reason, advice or "", tuple(sources), count)
            for kind, reason, advice, sources, count in queryable.sql(_FAILURES).fetchall()
        ]
    report("comparing the nodes")
    compare(nodes.values())
    return FleetFacts(sorted(nodes.values(), key=worst_first), failures)


def worst_first(node: NodeFacts) -> tuple[object, ...]:
    """Most impossible decisions; then most problems an hour, an hour at least; contradictions."""
    rate = node.problems / max(node.span_h, 1.0)
    return (-node.counts["impossible"], -rate, -node.counts["contradictions"], node.node)


def compare(nodes: Iterable[NodeFacts]) -> None:
    """Fill in what stands out; nodes of no known pool are compared with one another."""
    pools: defaultdict[str | None, list[NodeFacts]] = defaultdict(list)
    for node in nodes:
        pools[node.pool].append(node)
    for peers in pools.values():
        for column in COLUMNS:
            exposures = [_exposure(node, column) for node in peers]
            counts = [node.counts[column.id] for node in peers]
            found = outstanding(counts, exposures)
            for node, each in zip(peers, found, strict=True):
                node.peers = len(peers)
                if each is not None:
                    node.outstanding[column.id] = each


def _exposure(node: NodeFacts, column: Column) -> float:
    match column.per:
        case "hour":
            return node.span_h
        case "line":
            return node.lines
        case "decision":
            return node.decisions


_OF_NODES = [
    column.id for column in COLUMNS if not (column.kinds or column.record or column.minutes)
]
_NODES = f"""
SELECT node, name, pool, kubelet_versions, epoch_ns(first_ts), epoch_ns(last_ts), decisions, match,
    admissible, inferred, lines, {", ".join(_OF_NODES)}
FROM nodes"""
_RECORDS = {column.record: column.id for column in COLUMNS if column.record}
_COLUMN_OF = {kind: column.id for column in COLUMNS for kind in column.kinds} | _RECORDS
_COUNTS = f"""
SELECT node, kind, epoch_ns(date_trunc('hour', ts)) AS hour_ns, count(*) AS count
FROM (
    SELECT node, kind, ts FROM problems WHERE kind IN {tuple(_COLUMN_OF)}
    UNION ALL SELECT node, kind, ts FROM records WHERE kind IN {tuple(_RECORDS)}
)
GROUP BY ALL"""
_IMPOSSIBLE = """
SELECT node, epoch_ns(date_trunc('hour', ts)) AS hour_ns, count(*) AS count
FROM verdicts
WHERE verdict = 'impossible' AND NOT inferred
GROUP BY ALL"""
_FAILURES = """
SELECT kind, reason, advice, list(source ORDER BY source)[:5] AS sources, count(*) AS count
FROM (
    SELECT * REPLACE (
        CASE WHEN starts_with(reason, source) THEN ltrim(substr(reason, len(source) + 1), '/:! ')
        ELSE reason END AS reason
    )
    FROM failures
)
GROUP BY kind, reason, advice
ORDER BY count DESC, kind, reason"""


_FIELDS = (
    *("node", "name", "pool", "versions", "first_ns", "last_ns"),
    *("decisions", "match", "admissible", "inferred", "lines"),
)
"""What the first columns of ``_NODES`` are; the others are counts."""


def _nodes(queryable: Queryable) -> dict[str, NodeFacts]:
    found = {}
    nothing = dict.fromkeys((column.id for column in COLUMNS), 0)
    for row in queryable.sql(_NODES).fetchall():
        facts = dict(zip(_FIELDS, row, strict=False))
        counts = dict(zip(_OF_NODES, row[len(_FIELDS) :], strict=True))
        facts["versions"] = tuple(facts["versions"] or ())
        node = NodeFacts(**facts, counts=nothing | counts, hours={}, outstanding={})
        found[node.node] = node
    return found


def _count(queryable: Queryable, nodes: dict[str, NodeFacts]) -> None:
    problems: Counter[tuple[str, int]] = Counter()
    for node, kind, hour_ns, count in queryable.sql(_COUNTS).fetchall():
        what = _COLUMN_OF[kind]
        nodes[node].counts[what] += count
        if what in PROBLEMS:
            problems[node, hour_ns // _HOUR_NS] += count
    for column in COLUMNS:
        for node, count in queryable.sql(column.minutes).fetchall() if column.minutes else ():
            nodes[node].counts[column.id] += count
    impossible: Counter[tuple[str, int]] = Counter()
    for node, hour_ns, count in queryable.sql(_IMPOSSIBLE).fetchall():
        impossible[node, hour_ns // _HOUR_NS] += count
    for node, hour in sorted(problems.keys() | impossible.keys()):
        nodes[node].hours[hour] = (problems[node, hour], impossible[node, hour])
