"""What the kubelet's resource managers share: CPU sets, container IDs, checkpoints, refusals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from typing import Any, Final

from kubeledger.kubelet.kube.gotexts import atoi, quoted
from kubeledger.kubelet.kube.maporder import MapOrder

# Sets of CPUs: in the kubelet's notation (``0-3,7``), and as integers whose bit n is CPU n.
#
# Deciders go through hundreds of sets a case, of machines with up to some hundred CPUs: on
# integers, union, difference and size are one operation each.
#
# Source: v1.30.1 k8s.io/utils/cpuset/cpuset.go Parse, String

CPUSet = int
"""Bit n: CPU n is in it."""

CPU_MAX: Final = 999_999
"""The kubelet knows no limit, but a set with larger numbers would fill its memory."""


@lru_cache(maxsize=1 << 12)
def parse(text: str) -> CPUSet:
    """The set as written.

    Raises:
        ValueError: the text is no such set; with Go's words.
    """
    cpus = 0
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        start = atoi(first)
        end = atoi(last) if dash else start
        if start > end:
            raise ValueError(f"invalid range {quoted(part)} ({start} > {end})")
        if end > CPU_MAX:
            raise ValueError(f"CPU {end} is beyond {CPU_MAX}")
        cpus |= (2 << end) - (1 << start)
    return cpus


@lru_cache(maxsize=1 << 13)
def text_of(cpus: CPUSet) -> str:
    """The set as the kubelet writes it; ``""`` for none."""
    parts = []
    at = 0
    while cpus:
        skipped = (cpus & -cpus).bit_length() - 1
        at, cpus = at + skipped, cpus >> skipped
        run = (~cpus & (cpus + 1)).bit_length() - 1
        parts.append(f"{at}-{at + run - 1}" if run > 1 else str(at))
        at, cpus = at + run, cpus >> run
    return ",".join(parts)


def set_of(cpus: Iterable[int]) -> CPUSet:
    """The set with these CPUs, none of them below 0."""
    found = 0
    for cpu in cpus:
        found |= 1 << cpu
    return found


def cpus_in(cpus: CPUSet) -> list[int]:
    """(n,) the CPUs of a set, ascending."""
    found = []
    while cpus:
        lowest = cpus & -cpus
        found.append(lowest.bit_length() - 1)
        cpus ^= lowest
    return found


def cpus_of(text: str) -> frozenset[int]:
    """The CPUs of a set as written.

    Raises:
        ValueError: the text is no such set.
    """
    try:
        return frozenset(cpus_in(parse(text)))
    except ValueError:
        raise ValueError(f"{text!r} is not a set of CPUs") from None


def cpu_set_text(cpus: Iterable[int]) -> str:
    """The set as the kubelet writes it; ``""`` for none."""
    return text_of(set_of(cpus))


# Which container of which pod has which ID, as the CPU and the memory manager know it.

ContainerRef = tuple[str, str]
"""Pod UID and container."""


class ContainerMap(dict[str, ContainerRef]):
    """Container ID -> pod UID and container.

    Source: v1.36.2 pkg/kubelet/cm/containermap/container_map.go
    """

    def remove_by_ref(self, ref: ContainerRef, order: MapOrder) -> None:
        """Forget one ID of a container: any, where it has several."""
        if ids := [container_id for container_id, of in self.items() if of == ref]:
            del self[order.of(ids)[0]]

    def visit_removing(
        self,
        refs: Collection[ContainerRef],
        remove: Callable[[ContainerRef], None],
        order: MapOrder,
    ) -> None:
        """Remove containers while going through the map.

        Go comes to an entry at most once, and not to one that was removed before: where a
        container has several IDs, one of them may stay.
        """
        stale = [container_id for container_id, ref in self.items() if ref in refs]
        while left := [container_id for container_id in stale if container_id in self]:
            of = self._of_one_container(left)
            visited = order.of(of)[0]
            stale.remove(visited)
            remove(self[visited])

    def _of_one_container(self, ids: Iterable[str]) -> list[str]:
        """IDs of the first one's container: the order of containers does not show."""
        ids = list(ids)
        return [container_id for container_id in ids if self[container_id] == self[ids[0]]]


# Parts of the kubelet's checkpoint files: decoded JSON checked for its types.


class MalformedCheckpointError(ValueError):
    """The decoded JSON is no checkpoint of a form that any kubelet wrote."""


def checksum_of(value: object) -> int:
    """A stored checksum.

    Raises:
        MalformedCheckpointError: as all functions here, where the value has another type.
    """
    return unsigned_of(value, "the checksum")


def unsigned_of(value: object, what: str) -> int:
    """An unsigned integer of 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        raise MalformedCheckpointError(f"{what} is not an unsigned integer")
    return value


def object_of(value: object, what: str) -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise MalformedCheckpointError(f"{what} is not a JSON object")
    return value


def optional_object(value: object, what: str) -> dict[str, Any] | None:
    """A JSON object or null."""
    return None if value is None else object_of(value, what)


def optional_list(value: object, what: str) -> list[Any] | None:
    """A list or null."""
    if value is not None and not isinstance(value, list):
        raise MalformedCheckpointError(f"{what} is not a list")
    return value


def strings_of(value: object, what: str) -> list[str] | None:
    """A list of strings, or null."""
    items = optional_list(value, what)
    return None if items is None else [string_of(item, what) for item in items]


def string_of(value: object, what: str) -> str:
    """A string."""
    if not isinstance(value, str):
        raise MalformedCheckpointError(f"{what} is not a string")
    return value


# Errors with which the kubelet's resource managers refuse a container.

UNEXPECTED_REASON = "UnexpectedAdmissionError"
SMT_ALIGNMENT_REASON = "SMTAlignmentError"
EMPTY_POOL_REASON = "EmptyPodSharedPoolError"


class AllocationError(Exception):
    """A manager has nothing for a container, or for a pod; the text is the kubelet's.

    Attributes:
        reason: that the pod is refused with.

    Source: v1.36.2 pkg/kubelet/cm/admission/errors.go Error
    """

    def __init__(self, text: str, reason: str = UNEXPECTED_REASON) -> None:
        super().__init__(text)
        self.reason = reason

    @property
    def message(self) -> str:
        """What the refusal of the pod says.

        Source: v1.36.2 pkg/kubelet/cm/admission/errors.go GetPodAdmitResult
        """
        if self.reason == UNEXPECTED_REASON:
            return f"Allocate failed due to {self}, which is unexpected"
        return str(self)
