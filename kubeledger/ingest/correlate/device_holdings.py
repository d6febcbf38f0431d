"""Who holds which devices, as far as the lines and checkpoints so far show.

The kubelet does not rewrite its checkpoint when devices come free, and restores all of it
after a restart: an entry of a checkpoint may belong to a pod that is long gone. So what
was released is remembered too, and an old entry is not mistaken for a new allocation.
"""

from __future__ import annotations

import msgspec

from kubeledger.model.record import Evidence

__all__ = ["Holder", "Holding", "Holdings"]

Holder = tuple[str, str, str]
"""Pod UID (or ``namespace/name`` where no source shows the UID), container, resource."""


class Holding(msgspec.Struct):
    """Devices of one resource in the hands of one container.

    Attributes:
        device_ids: sorted.
        since_ns: when it was seen first.
        evidence: where.
        confirmed_ns: when a line of the log reported it last; 0 when none did again.
        in_checkpoint: a checkpoint agreed.
        disputed: device IDs that a checkpoint held instead, once that has been reported.
    """

    device_ids: tuple[str, ...]
    since_ns: int
    evidence: Evidence
    confirmed_ns: int = 0
    in_checkpoint: bool = False
    disputed: tuple[str, ...] | None = None


class Holdings:
    """All holdings of a node."""

    def __init__(self) -> None:
        self.held: dict[Holder, Holding] = {}
        self._gone: dict[Holder, tuple[str, ...]] = {}
        self._gone_pods: set[str] = set()

    def take(self, holder: Holder, holding: Holding) -> None:
        """A container got devices."""
        self.held[holder] = holding
        self._gone.pop(holder, None)
        self._gone_pods.discard(holder[0])

    def undo(self, holder: Holder) -> None:
        """It did not get them after all."""
        self.held.pop(holder, None)

    def of_pod(self, pod: str) -> list[Holder]:
        """What the pod holds, in sorted order."""
        return sorted(holder for holder in self.held if holder[0] == pod)

    def release(self, holder: Holder) -> None:
        """A container lost its devices of one resource."""
        self._gone[holder] = self.held.pop(holder).device_ids

    def release_pod(self, pod: str) -> bool:
        """A pod lost all devices; False when that was known before."""
        holders = self.of_pod(pod)
        for holder in holders:
            self.release(holder)
        if not holders and pod in self._gone_pods:
            return False
        self._gone_pods.add(pod)
        return True

    def is_stale(self, holder: Holder, device_ids: tuple[str, ...]) -> bool:
        """An entry that has outlived the release of its devices."""
        if holder[0] in self._gone_pods and holder not in self._gone:
            return True
        return self._gone.get(holder) == device_ids
