"""Who holds which devices, as far as records show: certainly, or perhaps.

A holding begins with a grant and ends when the device manager says that it releases the
pod. Where its lines are not in the log, a pod that ended may hold its devices or not, and a
grant that only a later checkpoint shows counts as possible until its pod was admitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from kubeledger.verify.rules.devices.first_pass import Holder

__all__ = ["Held", "Holdings", "InUse"]


class Held(msgspec.Struct):
    """Devices of one resource in the hands of one container.

    Attributes:
        devices: IDs; None where only their number is certain.
        seq: record that shows it.
        certain: False while it is only possible.
        run: number of the kubelet process that showed it last.
        disputed: another source shows other devices.
    """

    devices: frozenset[str] | None
    seq: int
    certain: bool = True
    run: int = 0
    disputed: bool = False


class InUse(msgspec.Struct, frozen=True):
    """Devices of one resource in use just before a request, but for the one who asks.

    Attributes:
        certain: IDs.
        maybe: perhaps in use, besides.
        unknown: somebody may hold devices whose IDs are not known.
        holders: device -> (n,) who holds it, certainly or perhaps; several where an init
            container's was taken over.
        seqs: (n,) records that show so.
    """

    certain: frozenset[str]
    maybe: frozenset[str]
    unknown: bool
    holders: dict[str, tuple[Holder, ...]]
    seqs: tuple[int, ...] = ()


class Holdings:
    """All holdings of a node; bounded by the pods on it.

    Attributes:
        complete: every holder is known: the kubelet's start or a checkpoint was seen.
        run: number of the kubelet process.
    """

    def __init__(self) -> None:
        self.complete = False
        self.run = 0
        self._held: dict[Holder, Held] = {}

    def take(self, holder: Holder, held: Held) -> None:
        """A container holds devices from now on."""
        held.run = self.run
        self._held[holder] = held

    def get(self, holder: Holder) -> Held | None:
        """What a container holds of a resource."""
        return self._held.get(holder)

    def release(self, pod: str, container: str | None = None, resource: str | None = None) -> None:
        """A pod, or a part of it, holds nothing any more."""
        for holder in self.of_pod(pod):
            if container in (None, holder[1]) and resource in (None, holder[2]):
                del self._held[holder]

    def restore_failed(self, holder: Holder) -> None:
        """A container gets devices: what it held in an earlier process was not restored."""
        held = self.get(holder)
        if held is not None and held.run != self.run:
            del self._held[holder]

    def of_pod(self, pod: str) -> list[Holder]:
        """What the pod holds, in sorted order."""
        return sorted(holder for holder in self._held if holder[0] == pod)

    def __iter__(self) -> Iterator[tuple[Holder, Held]]:
        """All holdings."""
        yield from self._held.items()

    def in_use(self, holder: Holder, keeps: Callable[[str], bool]) -> InUse:
        """What is in use for others than one container.

        Args:
            holder: who asks.
            keeps: whether a pod certainly keeps what it holds.
        """
        certain: set[str] = set()
        maybe: set[str] = set()
        holders: dict[str, tuple[Holder, ...]] = {}
        seqs: list[int] = []
        unknown = not self.complete
        for other, held in self._held.items():
            mine = other[0] == holder[0] and not held.certain
            if other[2] != holder[2] or other == holder or mine:
                continue  # a pod's containers get theirs one after the other
            if held.devices is None:
                unknown = True
                continue
            seqs.append(held.seq)
            sure = held.certain and (other[0] == holder[0] or keeps(other[0]))
            (certain if sure else maybe).update(held.devices)
            for device in held.devices:
                holders[device] = (*holders.get(device, ()), other)
        return InUse(
            certain=frozenset(certain),
            maybe=frozenset(maybe - certain),
            unknown=unknown,
            holders=holders,
            seqs=tuple(sorted(seqs)),
        )
