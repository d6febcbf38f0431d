"""Memory for a thread: who starts one that finds none waits without end for it to begin."""

from __future__ import annotations

import mmap

_BYTES = 32 << 20
"""Its stack, and what it does before it could say that there is no more."""


def require_room() -> None:
    """See that there is room for a thread; not a byte of it is touched.

    Raises:
        MemoryError: there is none.
    """
    try:
        mmap.mmap(-1, _BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError as error:
        raise MemoryError from error
