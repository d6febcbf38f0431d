"""``python -m tests.fleet.gated``: the command, whose workers wait at a gate before they commit.

Workers import this module, too, as it is the main module of what started them. The gate is a
directory: a file ``NODE.PID`` tells who waits at it, and ``NODE.open`` lets that node through.
"""

import os
import time
from pathlib import Path
from typing import Any

from kubeledger.cli.main import run
from kubeledger.fleet.lake import Lake

_GATE = Path(os.environ["KUBELEDGER_TEST_GATE"])
_commit = Lake.commit


def _held(lake: Lake, head: Any, *more: Any) -> Any:  # noqa: ANN401 # as it is
    name = head.summary.name
    (_GATE / f"{name}.{os.getpid()}").touch()
    while not (_GATE / f"{name}.open").exists():
        time.sleep(0.01)
    return _commit(lake, head, *more)


Lake.commit = _held  # type: ignore[assignment, method-assign]

if __name__ == "__main__":
    run()
