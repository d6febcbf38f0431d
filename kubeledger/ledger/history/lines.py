"""Lines as DuckDB reads them, and the rows that are kept of them.

Both the Parquet files and the live tail hold these rows, so a view never knows which of
them it reads. DuckDB's own JSON reader parses the lines, without Python per row.
"""

from __future__ import annotations

from kubeledger.ledger.segments import LINE_BYTES_MAX

EVIDENCE_TYPE = 'STRUCT(file VARCHAR, line BIGINT, "offset" BIGINT, "text" VARCHAR)[]'
_LINE_COLUMNS = {
    "node": "VARCHAR",
    "seq": "BIGINT",
    "ts_ns": "BIGINT",
    "role": "VARCHAR",
    "kind": "VARCHAR",
    "v": "INTEGER",
    "cause": "BIGINT",
    "evidence": EVIDENCE_TYPE,
    "body": "JSON",
}

ROW_COLUMNS = (
    *("node", "seq", "ts", "ts_ns", "role", "kind", "v", "cause_seq"),
    *("namespace", "pod", "pod_uid", "container", "source_file", "source_line"),
    *("evidence", "body"),
)
"""Columns of a row: those of the view ``events`` and the evidence."""


def quoted(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def create_lines(
    table: str,
    path: str | None,
    *,
    kinds: frozenset[str] | None = None,
    evidence: bool = True,
) -> str:
    """The statement that fills a new table with lines.

    Args:
        table: its name; the columns are those of a line, without chain and CRC.
        path: file of whole lines, with no pattern in its name; None: the table stays empty.
        kinds: only records of these kinds; None means all.
        evidence: read it too; else it is NULL.
    """
    where = ""
    if kinds is not None:
        where = f"WHERE kind IN ({', '.join(quoted(kind) for kind in sorted(kinds) or [''])})"
    columns = [name for name in _LINE_COLUMNS if evidence or name != "evidence"]
    missing = "" if evidence else f", NULL::{EVIDENCE_TYPE} AS evidence"
    return f"CREATE TABLE {table} AS SELECT *{missing} FROM {_scan(path, columns)} {where}"


def _scan(path: str | None, columns: list[str]) -> str:
    if path is None:
        empty = ", ".join(f"NULL::{_LINE_COLUMNS[name]} AS {name}" for name in columns)
        return f"(SELECT {empty} WHERE false)"
    typed = ", ".join(f"{quoted(name)}: {quoted(_LINE_COLUMNS[name])}" for name in columns)
    return (
        f"read_json({quoted(path)}, format = 'newline_delimited', columns = {{{typed}}},"
        f" maximum_object_size = {LINE_BYTES_MAX})"
    )


_ABOUT = (
    *("namespace", "victim_namespace", "preemptor_namespace", "pod", "victim_pod", "preemptor_pod"),
    *("pod_uid", "victim_uid", "preemptor_uid", "container", "object_kind"),
)
"""Fields of bodies that name whom a record is about."""


def rows_sql(table: str) -> str:
    """A query that gives the rows (``ROW_COLUMNS``) of a table of lines, in its order.

    A preemption is about its victim, a failed preemption about the preemptor. A reason may
    be about the node; then ``pod`` in the body holds the node's name.
    """
    # One call for all fields parses each body once.
    paths = ", ".join(quoted(f"$.{name}") for name in _ABOUT)
    field = {name: f"fields[{n}]" for n, name in enumerate(_ABOUT, 1)}
    return f"""
SELECT
    node,
    seq,
    make_timestamp(ts_ns // 1000) AS ts,
    ts_ns,
    role,
    kind,
    v,
    cause AS cause_seq,
    CASE WHEN about_pod THEN coalesce(
        {field["namespace"]}, {field["victim_namespace"]}, {field["preemptor_namespace"]}
    ) END AS namespace,
    CASE WHEN about_pod THEN coalesce(
        {field["pod"]}, {field["victim_pod"]}, {field["preemptor_pod"]}
    ) END AS pod,
    CASE
        WHEN NOT about_pod THEN NULL
        WHEN kind = 'preemption.PodPreempted' THEN {field["victim_uid"]}
        WHEN kind = 'preemption.PreemptionFailed' THEN {field["preemptor_uid"]}
        ELSE {field["pod_uid"]}
    END AS pod_uid,
    {field["container"]} AS container,
    evidence[1].file AS source_file,
    evidence[1].line AS source_line,
    evidence,
    body
FROM (
    SELECT
        *,
        kind <> 'lifecycle.ReasonReported' OR {field["object_kind"]} = 'Pod' AS about_pod
    FROM (SELECT *, json_extract_string(body, [{paths}]) AS fields FROM {table})
)"""
