"""How much memory a query of the page may take, whatever takes it.

DuckDB counts its own pages. What it folds while it plans, a single long text, and what Python
makes of a value are in no count of its. So for the while of a query the operating system, where
it can, gives this process no more than so much; DuckDB and Python refuse then, and continue.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

import duckdb

from kubeledger.analyze.sql.api import lingering

__all__ = ["Budget"]

_STATUS = Path("/proc/self/status")
_DATA = re.compile(r"^VmData:\s+(\d+) kB$", re.MULTILINE)
_SIZE = re.compile(r"([\d.]+) ([KMGTP]?)(?:iB|bytes?)")
_UNITS = " KMGTP"
_ASIDE_BYTES = 512 << 20
"""For what else the process does meanwhile: other requests, stacks of threads."""


class Budget:
    """Memory that the queries under way may take together, beyond what there was before them.

    Attributes:
        size_bytes: of it.
    """

    def __init__(self, memory: str) -> None:
        """Nothing is limited yet.

        Args:
            memory: as DuckDB writes it, ``1GB``; what is no size is told by whoever connects.
        """
        self.size_bytes = _ASIDE_BYTES + _bytes_of(memory)
        self._lock = Lock()
        self._under_way = 0
        self._is_limited = False

    @contextmanager
    def spent(self) -> Iterator[None]:
        """Limit the process for the while; the last query that really ends lifts it."""
        with self._lock:
            self._under_way += 1
            if not self._is_limited:
                self._set(self.size_bytes)
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1
                if not self._under_way and not lingering():
                    self._set(None)

    def _set(self, more_bytes: int | None) -> None:
        self._is_limited = more_bytes is not None
        with suppress(ImportError, OSError, ValueError):  # not on this system
            import resource

            _, most = resource.getrlimit(resource.RLIMIT_DATA)
            limit = most
            if more_bytes is not None and (now := _DATA.search(_STATUS.read_text())):
                limit = (int(now[1]) << 10) + more_bytes
                limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
            resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def _bytes_of(memory: str) -> int:
    """What DuckDB takes a size for; 0 where it is none."""
    try:
        with duckdb.connect(":memory:", config={"memory_limit": memory}) as connection:
            row = connection.execute("SELECT current_setting('memory_limit')").fetchone()
    except duckdb.Error:
        return 0
    size = _SIZE.match(str((row or ("",))[0]))
    return int(float(size[1]) * 1024 ** _UNITS.index(size[2] or " ")) if size else 0
