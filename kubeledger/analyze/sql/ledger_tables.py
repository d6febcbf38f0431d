"""The tables of one ledger: history and live tail as one, verdicts and episodes made now.

The history is read where it lies, as far as a query needs it. The tail after it, a few
MiB, has every line's CRC and the chain checked and is parsed by DuckDB's own JSON reader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kubeledger.analyze.sql.loader import one_line
from kubeledger.analyze.sql.tables import (
    ROWS,
    VERIFIED,
    VERIFIED_COLUMNS,
    columns_of,
    create_table,
    fingerprint,
)
from kubeledger.analyze.sql.views import Needs, View, load_views
from kubeledger.ledger.engine import duckdb
from kubeledger.ledger.history.history import Coverage
from kubeledger.ledger.history.history import History as Parquet
from kubeledger.ledger.history.parts import (
    ROW_COLUMNS,
    create_lines,
    quoted,
    rows_sql,
    upcast_lines,
)
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.storage import storage_errors
from kubeledger.model.errors import DamagedLedgerError
from kubeledger.model.record import Record

if TYPE_CHECKING:
    from kubeledger.analyze.histories.history import History
    from kubeledger.analyze.problems.told import Told


class Episodes(NamedTuple):
    """How records are folded into episodes.

    Attributes:
        kinds: of the records that count.
        fold: makes what takes these records of a history (``take``), in the order of the ledger.
    """

    kinds: frozenset[str]
    fold: Callable[[History], Any]


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

    return Episodes(KINDS, lambda _: PodStages())


def _node_conditions() -> Episodes:
    from kubeledger.replay.episodes.node_conditions import KINDS, NodeConditions

    return Episodes(KINDS, lambda _: NodeConditions())


def _safety() -> Episodes:
    from kubeledger.replay.episodes.safety import KINDS

    return Episodes(KINDS, lambda _: _Violations())


def _told() -> Episodes:
    from kubeledger.analyze.problems.told import KINDS, Told

    return Episodes(KINDS, lambda history: Told(history.span()[1]))


def _problems(told: Told) -> Iterator[dict[str, object]]:
    from kubeledger.analyze.problems.table import occurrences

    for problem, row in occurrences(told):
        said = {"kind": problem.kind, "severity": problem.severity}
        yield {"seq": row["seq"], "ts_ns": row["ts_ns"], **said}


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


def _listed(method: str) -> Callable[[Any], Iterable[dict[str, object]]]:
    """What a fold's method lists."""
    return lambda fold: map(msgspec.structs.asdict, getattr(fold, method)())


def folded(
    tables: Iterable[DerivedTable], history: History
) -> Iterator[tuple[DerivedTable, Iterable[dict[str, object]]]]:
    """The rows of some tables of one node, made in one pass over its records.

    Args:
        tables: those of the same episodes share it.
    """
    tables = list(tables)
    folds: dict[Callable[[], Episodes], Any] = {}
    takers: dict[str, list[Callable[[Record], object]]] = {}
    for load in {table.episodes: None for table in tables}:
        kinds, make = load()
        folds[load] = make(history)
        for kind in kinds:
            takers.setdefault(kind, []).append(folds[load].take)
    for record in history.read(takers.keys()) if takers else ():
        for take in takers[record.kind]:
            take(record)
    for table in tables:
        yield table, table.rows(folds[table.episodes])


DERIVED: Mapping[str, DerivedTable] = {
    "stored.stages": DerivedTable(
        "stages",
        columns_of(
            "namespace VARCHAR, pod VARCHAR, pod_uid VARCHAR, container VARCHAR, stage VARCHAR,"
            " reason VARCHAR, message VARCHAR, about VARCHAR, attempts BIGINT, is_waiting BOOLEAN,"
            " last_ts_ns BIGINT, passed_ts_ns BIGINT, passed_seq BIGINT, ended_ts_ns BIGINT"
        ),
        _pod_stages,
        _listed("episodes"),
    ),
    "stored.conditions": DerivedTable(
        "conditions",
        columns_of(
            "condition VARCHAR, status VARCHAR, reason VARCHAR, message VARCHAR, until_ts_ns BIGINT"
        ),
        _node_conditions,
        _listed("conditions"),
    ),
    "stored.troubles": DerivedTable(
        "troubles",
        columns_of(
            "trouble VARCHAR, message VARCHAR, attempts BIGINT, last_ts_ns BIGINT,"
            " passed_ts_ns BIGINT"
        ),
        _node_conditions,
        _listed("troubles"),
    ),
    "stored.violated": DerivedTable(
        "violations",
        columns_of(
            "invariant VARCHAR, subject VARCHAR, message VARCHAR, seqs BIGINT[], bugs VARCHAR[]"
        ),
        _safety,
        attrgetter("found"),
    ),
    "stored.went_wrong": DerivedTable(
        "problems", columns_of("kind VARCHAR, severity INTEGER"), _told, _problems
    ),
}
"""Name in the schema ``stored`` -> table."""


_TAIL = "stored.tail"
_SUPERSEDED = "stored.superseded"


class LedgerTables:
    """The tables of one ledger.

    Args:
        path: the ledger's directory.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._history: Parquet | None = None

    @property
    def views(self) -> Mapping[str, View]:
        return load_views()

    def state(self) -> Hashable:
        """Names and sizes of its segments."""
        return fingerprint(self._path)

    def make(self, connection: duckdb.DuckDBPyConnection, needs: Needs, scratch: Path) -> list[str]:
        """Records of the kinds that are needed; verdicts by verifying, episodes by replaying now.

        Raises:
            BadQuestionError: there is no ledger.
            DamagedLedgerError: a segment holds what is not a record, or records of a newer version.
        """
        if self._history is None:
            self._history = Parquet(Ledger.open(self._path), scratch)
        ledger = self._history.ledger
        covered = self._history.cover() if needs.records else Coverage([], {})
        _load_tail(connection, ledger, covered if needs.records else None, needs, scratch)
        with storage_errors("write verdicts and episodes", scratch):
            rows = _verdicts(ledger) if VERIFIED in needs.tables else iter(())
            create_table(connection, VERIFIED, VERIFIED_COLUMNS, rows, scratch)
            made = _episodes(ledger, needs.tables & DERIVED.keys())
            for name, table in DERIVED.items():
                create_table(connection, name, table.columns, made.get(name, ()), scratch)
        _create_rows(connection, covered.paths, _superseded(ledger))
        return covered.paths

    def damage(self, words: str) -> None:
        """Nothing is looked for: `kubeledger audit` proves all files of a ledger."""


def _load_tail(
    connection: duckdb.DuckDBPyConnection,
    ledger: Ledger,
    covered: Coverage | None,
    needs: Needs,
    scratch: Path,
) -> None:
    """Parse what stands after the history; nothing at all where ``covered`` is None."""
    path = scratch / "tail.jsonl"
    try:
        if covered is not None:
            with storage_errors("copy the end of the ledger", path):
                _copy_tail(ledger, covered, path)
        source = str(path) if covered is not None else None
        connection.execute(create_lines(_TAIL, source, kinds=needs.kinds, evidence=needs.evidence))
    except (duckdb.InvalidInputException, duckdb.IOException) as error:
        raise DamagedLedgerError(
            f"the ledger cannot be read: {one_line(str(error)).partition(' in file ')[0]}",
            advice="`kubeledger audit` shows what is damaged and where",
            file=str(ledger.path),
        ) from error
    finally:
        path.unlink(missing_ok=True)
    upcast_lines(connection, _TAIL, scratch)


def _copy_tail(ledger: Ledger, covered: Coverage, path: Path) -> None:
    """Copy lines, each one proved: DuckDB would read one in which a bit has flipped."""
    with path.open("wb") as file:
        for node in ledger.nodes():
            after_seq = covered.ends.get(node, 0)
            file.writelines(raw.line for raw in ledger.raw_lines(node, after_seq))


def _superseded(ledger: Ledger) -> list[tuple[str, int, int]]:
    """Node, first and last record of each span that a later import superseded."""
    return [
        (node, first, last)
        for node in ledger.nodes()
        for first, last in ledger.info(node).superseded
    ]


def _create_rows(
    connection: duckdb.DuckDBPyConnection,
    paths: list[str],
    superseded: list[tuple[str, int, int]],
) -> None:
    columns = ", ".join(ROW_COLUMNS)
    rows = f"SELECT {columns} FROM ({rows_sql(_TAIL)})"
    if paths:
        files = f"[{', '.join(quoted(path) for path in paths)}]"
        # The partitions' names repeat what the rows hold.
        history = f"read_parquet({files}, hive_partitioning = false)"
        rows = f"SELECT {columns} FROM {history} UNION ALL {rows}"
    if superseded:
        # Few spans stand for many records; as numbers they are joined by a hash.
        connection.execute(f"CREATE TABLE {_SUPERSEDED} (node VARCHAR, seq BIGINT)")
        connection.executemany(
            f"INSERT INTO {_SUPERSEDED} SELECT ?, unnest(range(?, ? + 1))", superseded
        )
        rows = (
            f"SELECT {columns} FROM ({rows}) AS r"
            f" ANTI JOIN {_SUPERSEDED} AS s ON r.node = s.node AND r.seq = s.seq"
        )
    connection.execute(f"CREATE VIEW {ROWS} AS {rows}")


def _episodes(ledger: Ledger, names: Collection[str]) -> dict[str, list[dict[str, object]]]:
    """Rows of the tables of these names, each node's made in one pass over its records."""
    if not names:
        return {}
    from kubeledger.analyze.histories.history import histories_of_ledger

    rows: dict[str, list[dict[str, object]]] = {name: [] for name in names}
    for history in histories_of_ledger(ledger) if ledger.nodes() else ():
        made = folded((DERIVED[name] for name in rows), history)
        for name, (_, found) in zip(rows, made, strict=True):
            rows[name] += ({"node": history.node, **row} for row in found)
    return rows


def _verdicts(ledger: Ledger) -> Iterator[dict[str, object]]:
    from kubeledger.analyze.histories.history import histories_of_ledger
    from kubeledger.verify import Finding

    for history in histories_of_ledger(ledger) if ledger.nodes() else ():
        for outcome in history.verify():
            if isinstance(outcome, Finding):
                fields = {
                    name: getattr(outcome, name) for name in VERIFIED_COLUMNS if name != "node"
                }
                yield {"node": history.node, **fields}
