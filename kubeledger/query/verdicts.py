"""Verdicts as a table: the ledger is verified when a query names the view ``verdicts``."""

from __future__ import annotations

from pathlib import Path

import duckdb
import msgspec

from kubeledger.history.lines import quoted
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.storage import storage_errors

__all__ = ["create_verdicts"]

_TABLE = "stored.verified"
_COLUMNS = {
    "node": "VARCHAR",
    "seq": "BIGINT",
    "ts_ns": "BIGINT",
    "kind": "VARCHAR",
    "subject": "VARCHAR",
    "verdict": "VARCHAR",
    "why": "VARCHAR",
    "missing": "VARCHAR[]",
    "expected": "JSON",
    "recorded": "JSON",
    "rule": "VARCHAR",
}


def create_verdicts(
    connection: duckdb.DuckDBPyConnection, ledger: Ledger, scratch: Path, *, verify: bool
) -> None:
    """Create the table that the view ``verdicts`` reads; empty unless ``verify``.

    Args:
        connection: gets the table; it must still be allowed to read files.
        ledger: is verified, node by node; findings go through a file, not through memory.
        scratch: directory for that file.
        verify: a query asks for verdicts.
    """
    columns = ", ".join(f"{name} {type_}" for name, type_ in _COLUMNS.items())
    connection.execute(f"CREATE TABLE {_TABLE} ({columns})")
    if not verify:
        return
    path = scratch / "verdicts.jsonl"
    try:
        with storage_errors("write verdicts", path):
            _write(ledger, path)
        types = ", ".join(f"{name}: {quoted(type_)}" for name, type_ in _COLUMNS.items())
        source = f"read_json({quoted(str(path))}, format = 'newline_delimited'"
        connection.execute(
            f"INSERT INTO {_TABLE} BY NAME FROM {source}, columns = {{{types}}},"
            " maximum_object_size = 67108864)"
        )
    finally:
        path.unlink(missing_ok=True)


def _write(ledger: Ledger, path: Path) -> None:
    from kubeledger.replay.histories import histories_of_ledger
    from kubeledger.verify import Finding

    encoder = msgspec.json.Encoder(order="deterministic")
    with path.open("wb") as file:
        for history in histories_of_ledger(ledger) if ledger.nodes() else ():
            for outcome in history.verify():
                if isinstance(outcome, Finding):
                    row = {name: getattr(outcome, name) for name in _COLUMNS if name != "node"}
                    file.write(encoder.encode({"node": history.node, **row}) + b"\n")
