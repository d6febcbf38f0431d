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
    """Whether most identities that two sources share mean other pods or containers in each.

    Args:
        pods: ``namespace/name`` -> UID -> what all sources say of it.
    """
    names: dict[str, set[str]] = {}
    holders: dict[str, set[tuple[str, str | None]]] = {}
    joined: set[str] = set()
    apart = together = 0
    for name, of_name in pods.items():
        listed, logged, added = set[str](), set[str](), set[str]()
        for uid, entries in of_name.items():
            for entry in entries:
                if entry.container_id:
                    holder = name, entry.container
                    holders.setdefault(entry.container_id, set()).add(holder)
                if uid is not None:
                    names.setdefault(uid, set()).add(name)
                    (logged if entry.listing is None else listed).add(uid)
                    if entry.what == "add":
                        added.add(uid)
        joined |= listed & logged
        # A line without a UID gets that of a list: who came by no line is the listed one, and so
        # is who came by a line where the listed one did not.
        other = bool(listed and (logged - listed - added or (added and not added & listed)))
        apart += other
        together += not other
    renamed = sum(len(each) > 1 for each in names.values())
    return (
        any(len(each) > _SEVERAL for each in names.values())
        or any(len(each) > _SEVERAL for each in holders.values())
        or any(container_id.startswith(_MASKS) for container_id in holders)
        or apart >= max(_SEVERAL, together // 4)
        or _SEVERAL <= renamed > len(joined) - renamed
    )
