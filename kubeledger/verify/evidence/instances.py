"""What pod lists tell of single instances of containers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.record import Record

__all__ = ["ListedInstances"]

_STATUSES: Final = ("initContainerStatuses", "containerStatuses")


class ListedInstances:
    """What pod lists tell of instances: how often their container had been restarted."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[int]] = {}
        self._told: dict[str, dict[tuple[str, int], tuple[int, int]]] = {}

    def note(self, record: Record) -> None:
        """Take in a list of the first reading."""
        body = record.body
        assert isinstance(body, PodListed)
        for status in _statuses(body):
            subject = f"container/{body.namespace}/{body.pod}/{status.get('name')}"
            for container_id, count in _counted(status):
                self._counts.setdefault(container_id, Counter())[count] += 1
                self._told.setdefault(container_id, {}).setdefault(
                    (subject, count), (record.seq, record.ts_ns)
                )

    def knows(self, container_id: str | None, subject: str = "") -> bool:
        """Whether a list shows the instance; as one of that container, if it is given."""
        told = self._told.get(container_id or "", {})
        return bool(told) and subject in {"", *(of for of, _ in told)}

    def count(self, container_id: str | None) -> int | None:
        """Restarts up to an instance, as most lists tell; None when none does."""
        counts = self._counts.get(container_id or "")
        return counts.most_common(1)[0][0] if counts else None

    def disputed(self) -> Iterator[tuple[str, str, list[tuple[int, int, int]]]]:
        """Instances of which lists count different restarts, though a restart makes another one.

        Yields:
            its container as a subject, its ID, and of each count the first list: (record, time,
            count).
        """
        for container_id, told in self._told.items():
            if len(self._counts[container_id]) > 1:
                sides = [(*first, count) for (_, count), first in told.items()]
                yield next(iter(told))[0], container_id, sides


def _statuses(body: PodListed) -> Iterator[dict[str, Any]]:
    for group in _STATUSES:
        for status in (body.status or {}).get(group) or ():
            if isinstance(status, dict):
                yield status


def _counted(status: dict[str, Any]) -> Iterator[tuple[str, int]]:
    count, container_id = status.get("restartCount"), _bare(status.get("containerID"))
    if not isinstance(count, int) or not container_id:
        return
    yield container_id, count
    try:
        before = _bare(status["lastState"]["terminated"]["containerID"])
    except (KeyError, TypeError):
        return
    # One that waits for its back-off is its own last state.
    if before and before != container_id and count:
        yield before, count - 1


def _bare(container_id: object) -> str:
    return str(container_id or "").rpartition("//")[2]
