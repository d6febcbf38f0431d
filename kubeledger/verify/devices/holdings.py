"""Who holds which devices, as far as records tell: certainly, or perhaps.

A holding begins with a grant and ends when the device manager says that it lets go of the
pod. Where its lines are not in the log, a pod that ended may hold its devices or not, and a
grant that only a later checkpoint shows counts as possible until its pod was admitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from kubeledger.verify.devices.foresight import Holder

__all__ = ["Held", "Holdings", "InUse"]

_LET_GO_MAX = 256
_NOBODY = ""


class Held(msgspec.Struct):
    """Devices of one resource in the hands of one container.

    Attributes:
        devices: IDs; None where only their number is certain.
        seq: record that tells it.
        certain: False while it is only possible.
        run: number of the kubelet process that told it last.
        disputed: another source tells other devices.
    """

    devices: frozenset[str] | None
    seq: int
    certain: bool = True
    run: int = 0
    disputed: bool = False


class InUse(msgspec.Struct, frozen=True):
    """Devices of one resource in use just before a request.

    Attributes:
        certain: IDs.
        maybe: perhaps in use, besides.
        unknown: somebody may hold devices whose IDs are not known.
        holders: device -> who holds it certainly, or perhaps.
        seqs: (n,) records that tell so.
        sharers: device -> (n,) all who hold it: an init container and one that took it over.
    """

    certain: frozenset[str]
    maybe: frozenset[str]
    unknown: bool
    holders: dict[str, Holder]
    seqs: tuple[int, ...]
    sharers: dict[str, tuple[Holder, ...]] = {}


class Holdings:
    """All holdings of a node; bounded by the pods on it.

    Attributes:
        complete: every holder is known: the kubelet's start or a checkpoint was seen.
        run: number of the kubelet process.
    """

    def __init__(self) -> None:
        self.complete = False
        self.run = 0
        self._held: dict[str, dict[Holder, Held]] = {}
        self._pods: dict[str, set[Holder]] = {}
        self._suspects: dict[str, set[str]] = {}
        self._let_go: dict[str, None] = {}

    def take(self, holder: Holder, held: Held) -> None:
        """A container holds devices from now on."""
        self._let_go.pop(holder[0], None)
        held.run = self.run
        self._held.setdefault(holder[2], {})[holder] = held
        self._pods.setdefault(holder[0], set()).add(holder)

    def get(self, holder: Holder) -> Held | None:
        """What a container holds of a resource."""
        return self._held.get(holder[2], {}).get(holder)

    def release(self, holder: Holder) -> None:
        """A container holds nothing of a resource any more."""
        self._held.get(holder[2], {}).pop(holder, None)
        held = self._pods.get(holder[0])
        if held is not None:
            held.discard(holder)
            if not held:
                del self._pods[holder[0]]

    def was_let_go(self, pod: str) -> bool:
        """Whether a pod was let go of (one of the last), so that a checkpoint may lag behind."""
        return pod in self._let_go

    def release_pod(self, pod: str) -> None:
        """A pod holds nothing any more."""
        self._let_go[pod] = None
        if len(self._let_go) > _LET_GO_MAX:
            del self._let_go[next(iter(self._let_go))]
        for holder in sorted(self._pods.get(pod, ())):
            self.release(holder)
        for pods in self._suspects.values():
            pods.difference_update((pod, _NOBODY))

    def restore_failed(self, holder: Holder) -> bool:
        """A container that holds devices asks again, of a new kubelet process.

        That one did not restore what it held, so of others that is not certain either.
        Returns whether it is so.
        """
        held = self.get(holder)
        if held is None or held.run == self.run:
            return False
        for _, other in self:
            if other.run != self.run:
                other.certain = False
        self.release(holder)
        return True

    def of_pod(self, pod: str) -> list[Holder]:
        """What the pod holds, in sorted order."""
        return sorted(self._pods.get(pod, ()))

    def suspect(self, pod: str, resource: str) -> None:
        """A pod may be granted devices, and no record would tell."""
        self._suspects.setdefault(resource, set()).add(pod)

    def leak(self, resource: str) -> None:
        """Devices stay in use, held by nobody, until what is in use is rebuilt."""
        self.suspect(_NOBODY, resource)

    def clear(self, pod: str) -> None:
        """A pod is under no suspicion any more."""
        for pods in self._suspects.values():
            pods.discard(pod)

    def clear_all(self) -> None:
        """A checkpoint shows all that is held."""
        self._suspects.clear()

    def __iter__(self) -> Iterator[tuple[Holder, Held]]:
        """All holdings, by resource."""
        for held in self._held.values():
            yield from held.items()

    def in_use(self, holder: Holder, lives: Callable[[str], bool]) -> InUse:
        """What is in use for others than one container.

        Args:
            holder: who asks.
            lives: whether a pod certainly keeps what it holds.
        """
        certain: set[str] = set()
        maybe: set[str] = set()
        holders: dict[str, Holder] = {}
        sharers: dict[str, tuple[Holder, ...]] = {}
        seqs: list[int] = []
        unknown = not self.complete or bool(self._suspects.get(holder[2], set()) - {holder[0]})
        for other, held in self._held.get(holder[2], {}).items():
            if other == holder or (other[0] == holder[0] and not held.certain):
                continue  # a pod's containers get theirs one after the other
            if held.devices is None:
                unknown = True
                continue
            seqs.append(held.seq)
            sure = held.certain and (other[0] == holder[0] or lives(other[0]))
            (certain if sure else maybe).update(held.devices)
            for device in held.devices:
                holders.setdefault(device, other)
                sharers[device] = (*sharers.get(device, ()), other)
        return InUse(
            certain=frozenset(certain),
            maybe=frozenset(maybe - certain),
            unknown=unknown,
            holders=holders,
            seqs=tuple(sorted(seqs)),
            sharers=sharers,
        )
