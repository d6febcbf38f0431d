"""Whether the sources of a node call the same pods and containers by the same names.

Who shares a log hides names, UIDs or IDs in it, often in one file only, or all by one word. What is
said of one pod then looks like that of another, and nothing that two sources say can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kubeledger.verify.evidence.history_entries import HistoryEntry

UNJOINED: Final = "names, UIDs and container IDs that are the same in all files"
_SEVERAL: Final = 2
"""A single line that names another pod is wrong by itself."""

_MASKS: Final = ("<", "[", "(", "*")


def are_unjoined(pods: Mapping[str, Mapping[str | None, Sequence[HistoryEntry]]]) -> bool:
    """Whether most identities that two sources share mean other pods in each.

    Args:
        pods: ``namespace/name`` -> UID -> what all sources say of it.
    """
    names: dict[str, set[str]] = {}
    uids, joined = set[str](), set[str]()
    apart = masked = 0
    for name, of_name in pods.items():
        for uid, entries in of_name.items():
            listed = sum(entry.listing is not None for entry in entries)
            if uid is not None:
                uids.add(uid)
                names.setdefault(uid, set()).add(name)
                if 0 < listed < len(entries):
                    joined.add(uid)
            for entry in entries:
                if entry.container_id:
                    names.setdefault(entry.container_id, set()).add(name)
                    masked += entry.container_id.startswith(_MASKS)
        apart += _is_apart(of_name)
    renamed = sum(len(names[uid]) > 1 for uid in uids)
    return (
        any(len(each) > _SEVERAL for each in names.values())
        or masked >= _SEVERAL
        or apart >= max(_SEVERAL, (len(pods) - apart) // 4)
        or _SEVERAL <= renamed > len(joined) - renamed
    )


def _is_apart(of_name: Mapping[str | None, Sequence[HistoryEntry]]) -> bool:
    """Whether the log first tells of a UID while lists show that the name is another's.

    One that was there before, or came after the list, is another pod: of a StatefulSet, say.
    """
    logged, owned = list[int](), list[tuple[int, int]]()
    for uid, entries in of_name.items():
        lists = [(entry.ts_ns, it) for entry in entries if (it := entry.listing)]
        owned += [(it.created_ns, ts_ns) for ts_ns, it in lists
                  if it.alive and it.created_ns and not it.mirror]  # fmt: skip
        if uid is not None and not lists:
            logged.append(min(entry.ts_ns for entry in entries))
    return any(start <= ts_ns <= end for ts_ns in logged for start, end in owned)
