"""The changes of Ready in a kubelet's log by regular expressions alone: nothing of the package.

As a command it prints what each file says: ``python tests/ingest/independent_conditions.py FILE``.
"""

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_KLOG = re.compile(r"\b[IWEF](\d{4}) (\d\d:\d\d:\d\d\.\d{3,9})")
_JSON = re.compile(r'"ts": ?(\d+(?:\.\d+)?)')
_TRUE = (
    r"Recording NodeReady event message for node",
    r'Recording event message for node".*"?event"?[=:] ?"NodeReady"',
    r"Fast updating node status as it just became ready",
    r'Event occurred".*"?kind"?[=:] ?"Node".*"?reason"?[=:] ?"NodeReady"',
    r"Event\(v1\.ObjectReference\{Kind:\"Node\".*reason: 'NodeReady'",
)
_FALSE = (
    *(words.replace("NodeReady", "NodeNotReady") for words in _TRUE if "NodeReady" in words),
    r"Node became not ready\b",
)
_WORDS = re.compile(f"(?P<true>{'|'.join(_TRUE)})|(?P<false>{'|'.join(_FALSE)})")


class Change(NamedTuple):
    """Ready is this from a line on; ``stamp`` as the line has it, without its zone."""

    stamp: str
    is_ready: bool


def ready_changes(lines: Iterable[str]) -> list[Change]:
    """In the order of their stamps; what only says the same again is no change."""
    said: set[Change] = set()
    for line in lines:
        words = _WORDS.search(line)
        stamp = _KLOG.search(line) or _JSON.search(line)
        if words is not None and stamp is not None:
            said.add(Change(" ".join(stamp.groups()), words["true"] is not None))
    changes: list[Change] = []
    for each in sorted(said):
        if not changes or changes[-1].is_ready != each.is_ready:
            changes.append(each)
    return changes


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with Path(name).open(encoding="utf-8", errors="replace") as file:
            for change in ready_changes(file):
                print(name, change.stamp, "ready" if change.is_ready else "not ready")
