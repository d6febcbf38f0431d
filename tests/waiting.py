"""Waiting for what other processes and threads do, however slow the machine is."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 120
"""Nothing takes so long but what hangs; no test passes or fails by how long anything takes."""

_LOOK_S = 0.01

_T = TypeVar("_T")


def until(look: Callable[[], _T]) -> _T:
    end_s = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < end_s, "it does not come"
        time.sleep(_LOOK_S)
    return found
