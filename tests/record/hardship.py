"""``python -m tests.record.hardship FILE ARGUMENT...``: the command, by a clock that a file sets.

The file holds by how many seconds the node's clock is wrong; whoever writes to it sets the clock.
"""

import sys
import time
from pathlib import Path

from kubeledger.cli.main import run

_OFFSET = Path(sys.argv.pop(1))
_TIME, _TIME_NS = time.time, time.time_ns


def _offset_s() -> int:
    return int(_OFFSET.read_text() or "0")


time.time = lambda: _TIME() + _offset_s()
time.time_ns = lambda: _TIME_NS() + _offset_s() * 10**9
run()
