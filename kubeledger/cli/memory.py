"""A bound on what this process takes, beside the one that DuckDB keeps by its own accounts."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

__all__ = ["bounded"]

_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d*)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_BESIDE_BYTES: Final = 512 << 20
"""For the interpreter's, the libraries' and the threads' own."""


@contextmanager
def bounded(memory: str | None) -> Iterator[None]:
    """Let the process grow by twice that memory and a bit meanwhile, and by no more.

    A single call of a function inside a query may take memory that DuckDB does not count; it
    ends with DuckDB's error for a lack of memory then.

    Args:
        memory: as DuckDB writes it (``2GB``); None is no bound, and anything else is left for
            DuckDB to refuse.
    """
    size = None if memory is None else _SIZE.fullmatch(memory)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    if size is not None:
        base = 1024 if size[3] else 1000
        grows = 2 * int(float(size[1]) * base ** _POWERS[size[2].lower()]) + _BESIDE_BYTES
        limits = [limit for limit in before if limit != resource.RLIM_INFINITY]
        _limit(min([_data_bytes() + grows, *limits]), before[1])
    try:
        yield
    finally:
        _limit(*before)


def _limit(soft: int, hard: int) -> None:
    with suppress(ValueError, OSError):  # the system knows no such limit
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int:
    """What the process has now, where the system tells."""
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[5])
        return pages * resource.getpagesize()
    return 0
