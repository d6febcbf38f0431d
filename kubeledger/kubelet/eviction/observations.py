"""What the signals say, read from a stats summary."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from kubeledger.kubelet.eviction.signals import ALLOCATABLE_MEMORY, MEMORY, PIDS
from kubeledger.kubelet.eviction.summary import FsStats, MemoryStats, Summary
from kubeledger.kubelet.kube.quantity import wrapped
from kubeledger.kubelet.profile.eviction import EvictionFacts
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import parse_api_ts

_INT64_MAX: Final = 2**63 - 1
_UINT64_MAX: Final = 2**64 - 1
_PODS: Final = "pods"


class SignalObservation(msgspec.Struct, frozen=True, gc=False):
    """A signal as it was read: bytes, inodes or process IDs, within signed 64 bits.

    Attributes:
        time_ns: when it was measured; None where the summary does not say.
    """

    available: int
    capacity: int
    time_ns: int | None = None


def make_signal_observations(
    summary: Summary, facts: EvictionFacts
) -> dict[str, SignalObservation]:
    """Signal -> observation, of the signals that the summary has.

    Raises:
        BadInputError: a number does not fit 64 bits, or a time is none.

    Source: v1.36.2 pkg/kubelet/eviction/helpers.go makeSignalObservations; v1.19
    Differs: Linux only; on Windows memory is read from another system container.
    """
    node = summary.node
    found: dict[str, SignalObservation] = {}
    _add_memory(found, MEMORY, node.memory)
    for container in node.system_containers or ():
        if container.name == _PODS:
            _add_memory(found, ALLOCATABLE_MEMORY, container.memory)
            break
    _add_disk(found, "nodefs", node.fs)
    if node.runtime is not None:
        _add_disk(found, "imagefs", node.runtime.image_fs)
        if facts.split_disk_known:
            _add_disk(found, "containerfs", node.runtime.container_fs)
    rlimit = node.rlimit
    if rlimit is not None and rlimit.running is not None and rlimit.max_pid is not None:
        found[PIDS] = SignalObservation(
            wrapped(rlimit.max_pid - rlimit.running), rlimit.max_pid, _time_ns(rlimit.time)
        )
    return found


def int64(number: int) -> int:
    """``int64(uint64)``: what is beyond 63 bits becomes negative.

    Raises:
        BadInputError: it does not fit 64 bits.
    """
    if number <= _INT64_MAX:
        return number
    if number > _UINT64_MAX:
        raise BadInputError(f"{number} does not fit 64 bits")
    return number - _UINT64_MAX - 1


def _add_memory(
    found: dict[str, SignalObservation], signal: str, stats: MemoryStats | None
) -> None:
    if stats is None:
        return
    available, used = stats.available_bytes, stats.working_set_bytes
    if available is not None and used is not None:
        capacity = wrapped(int64(available) + int64(used))
        found[signal] = SignalObservation(int64(available), capacity, _time_ns(stats.time))


def _add_disk(found: dict[str, SignalObservation], name: str, stats: FsStats | None) -> None:
    if stats is None:
        return
    time_ns = _time_ns(stats.time)
    available, capacity = stats.available_bytes, stats.capacity_bytes
    if available is not None and capacity is not None:
        found[f"{name}.available"] = SignalObservation(int64(available), int64(capacity), time_ns)
    available, capacity = stats.inodes_free, stats.inodes
    if available is not None and capacity is not None:
        found[f"{name}.inodesFree"] = SignalObservation(int64(available), int64(capacity), time_ns)


@lru_cache(maxsize=1 << 10)
def _time_ns(text: str | None) -> int | None:
    """None also for Go's zero time, which JSON of the API writes as null."""
    if text is None or text.startswith("0001-01-01T00:00:00Z"):
        return None
    try:
        return parse_api_ts(text)
    except ValueError:
        raise BadInputError(f"not an RFC 3339 time: {text[:80]!r}") from None
