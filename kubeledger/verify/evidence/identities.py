"""Whether the sources of a node call the same pods and containers by the same names.

Who shares a log hides names, UIDs or IDs in it, often in one file only, or all by one word. What is
said of one pod then looks like that of another, and nothing that two sources say can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from kubeledger.verify.evidence.history_entries import HistoryEntry
from kubeledger.verify.evidence.pods import PodRegister

UNJOINED: Final = "names, UIDs and container IDs that are the same in all files"
_SEVERAL: Final = 2
"""A single line that names another pod is wrong by itself."""

_NAMING: Final = frozenset({"killed", "aligned"})
"""What names a container by itself, and not by its ID as a list has it."""
_LAST_NS: Final = 1 << 62

_MASKS: Final = ("<", "[", "(", "*")


def are_unjoined(
    pods: Mapping[str, Mapping[str | None, Sequence[HistoryEntry]]], specs: PodRegister
) -> bool:
    """Whether most identities that two sources share mean other pods, or containers, in each.

    Args:
        pods: ``namespace/name`` -> UID -> what all sources say of it.
        specs: what lists show of their containers.
    """
    names: dict[str, set[str]] = {}
    uids, joined = set[str](), set[str]()
    apart = masked = strange = familiar = 0
    for name, of_name in pods.items():
        for uid, entries in of_name.items():
            listed = sum(entry.listing is not None for entry in entries)
            if uid is not None:
                uids.add(uid)
                names.setdefault(uid, set()).add(name)
                if 0 < listed < len(entries):
                    joined.add(uid)
                told = {entry.container for entry in entries if entry.what in _NAMING} - {None}
                own = _containers(specs, uid) if told and uid is not None else set()
                strange += bool(own) and not told <= own
                familiar += bool(own) and told <= own
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
        or _SEVERAL <= strange > familiar
    )


class _Named(msgspec.Struct, frozen=True):
    name: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    containers: tuple[_Named, ...] | None = None
    init_containers: tuple[_Named, ...] | None = None
    ephemeral_containers: tuple[_Named, ...] | None = None


class _Object(msgspec.Struct, frozen=True):
    spec: _Spec


def _containers(specs: PodRegister, uid: str) -> set[str]:
    """Names of all containers that a list shows of a pod."""
    listed = specs.at(_LAST_NS, uid)
    try:
        spec = _Spec() if listed is None else listed.as_(_Object).spec
    except msgspec.ValidationError:
        return set()
    parts = spec.containers, spec.init_containers, spec.ephemeral_containers
    return {each.name for part in parts for each in part or ()}


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
