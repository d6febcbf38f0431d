"""Records of an old schema version among parsed lines: those few go through the upcasters."""

from __future__ import annotations

from pathlib import Path

import duckdb
import msgspec

from kubeledger.ledger.history.lines import quoted
from kubeledger.model.errors import DamagedLedgerError
from kubeledger.model.wire.catalogue import BODY_TYPES
from kubeledger.model.wire.upcast import UpcastError, upcast

_FETCH_ROWS = 10_000


def upcast_lines(connection: duckdb.DuckDBPyConnection, table: str, scratch: Path) -> None:
    """Bring all records of a table of lines to the current schema versions.

    Args:
        connection: holds the table.
        scratch: directory for a file of the moment.

    Raises:
        DamagedLedgerError: there are records of a newer version.
    """
    current = ", ".join(f"({quoted(kind)}, {body.v})" for kind, body in BODY_TYPES.items())
    old = connection.cursor().execute(
        f"SELECT node, seq, kind, v, body FROM {table}"
        f" WHERE (kind, v) NOT IN (VALUES {current}) ORDER BY node, seq"
    )
    rows = old.fetchmany(_FETCH_ROWS)
    if not rows:
        return
    # Through a file: the rows of a big old ledger never stand in memory at once.
    upcasted = scratch / "upcasted.jsonl"
    with upcasted.open("wb") as file:
        while rows:
            file.write(msgspec.json.Encoder().encode_lines([_upcasted(row) for row in rows]))
            rows = old.fetchmany(_FETCH_ROWS)
    connection.execute(
        f"UPDATE {table} AS lines SET v = fresh.v, body = fresh.body"
        f" FROM read_json({quoted(str(upcasted))}, format = 'newline_delimited',"
        " columns = {node: 'VARCHAR', seq: 'BIGINT', v: 'INTEGER', body: 'JSON'}) AS fresh"
        " WHERE lines.node = fresh.node AND lines.seq = fresh.seq"
    )
    upcasted.unlink()


def _upcasted(row: tuple[str, int, str, int, str]) -> dict[str, object]:
    node, seq, kind, v, body = row
    try:
        if kind not in BODY_TYPES:
            raise UpcastError(f"unknown kind {kind!r}")
        fresh = upcast(kind, v, msgspec.json.decode(body, type=dict))
    except UpcastError as error:
        raise DamagedLedgerError(
            f"record {seq} of {node}: {error}",
            advice="a newer kubeledger wrote this ledger: read it with that version",
        ) from None
    return {"node": node, "seq": seq, "v": BODY_TYPES[kind].v, "body": fresh}
