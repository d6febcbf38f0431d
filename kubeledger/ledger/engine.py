"""DuckDB's engine, without the rest of its package: that takes longer to load than most questions.

The rest makes relations and frames of a result; who asks for one imports ``duckdb`` first.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb
else:
    try:
        import _duckdb as duckdb
    except ModuleNotFoundError:  # DuckDB promises nothing about that name
        import duckdb

__all__ = ["duckdb", "engine"]


def engine(scratch: Path) -> duckdb.DuckDBPyConnection:
    """An empty database without extensions from elsewhere.

    Args:
        scratch: where what does not fit into memory goes.
    """
    return duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "temp_directory": str(scratch),
        },
    )
