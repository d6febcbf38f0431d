"""Records as one Parquet file, for programs that read no ledger."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kubeledger.ledger.history.lines import create_lines, quoted, rows_sql
from kubeledger.ledger.history.parts import engine
from kubeledger.ledger.history.upcasting import upcast_lines

_OPTIONS = "FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v1"


def write_parquet(lines: Iterable[bytes], scratch: Path) -> tuple[Path, int]:
    """A row for each record: the columns of the view ``events`` and the evidence.

    Args:
        lines: of the records, each with its newline.
        scratch: an empty directory, whose name holds no pattern.

    Returns:
        The file, below ``scratch``, and how many rows it has.

    Raises:
        DamagedLedgerError: a record is of a newer version.
        duckdb.Error, OSError: the file cannot be written.
    """
    copy, made = scratch / "lines.jsonl", scratch / "records.parquet"
    with copy.open("wb") as file:
        file.writelines(lines)
    with engine(scratch) as connection:
        connection.execute(create_lines("part", str(copy)))
        upcast_lines(connection, "part", scratch)
        connection.execute(
            f"COPY ({rows_sql('part')} ORDER BY node, seq) TO {quoted(str(made))} ({_OPTIONS})"
        )
        (count,) = connection.execute("SELECT count(*) FROM part").fetchone() or (0,)
    return made, int(count)
