"""Which pod goes first when something is short."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from kubeledger.kubelet.eviction.signals import RESOURCE_OF, DiskLayout
from kubeledger.kubelet.eviction.summary import PodStats
from kubeledger.kubelet.eviction.usage import (
    disk_usage,
    measured_parts,
    memory_usage,
    pod_request_nanos,
    process_count,
)
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.profile.eviction import EvictionFacts
from kubeledger.kubelet.profile.resolve import KubeletProfile

_NANOS: Final = 10**9
_ORDERED_MAX: Final = 12
_ORDERED_MAX_OF_OLD_SORT: Final = 6


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """What of one pod its rank depends on.

    Attributes:
        uid: of the pod.
        priority: its priority; 0 where it has none.
        usage: bytes, inodes or processes; None where there are no statistics of the pod.
        request_nanos: what usage is compared with, in billionths; 0 of process IDs.
        deducted_nanos: what is taken off the usage: the request, of inodes that of bytes,
            of process IDs nothing.
    """

    uid: str
    priority: int
    usage: int | None
    request_nanos: int = 0
    deducted_nanos: int = 0

    @property
    def exceeds_request(self) -> bool:
        """Whether it uses more than it requests; not, where its usage is not known."""
        return self.usage is not None and self.usage * _NANOS > self.request_nanos


class RankReason(StrEnum):
    """What puts one pod before another."""

    NO_STATISTICS = "no statistics"
    EXCEEDS_REQUEST = "uses more than it requests"
    PRIORITY = "lower priority"
    USAGE = "uses more above its request"
    EQUAL = "equal"


def candidates(
    pods: Iterable[Pod],
    stats: Mapping[str, PodStats],
    signal: str,
    layout: DiskLayout,
    profile: KubeletProfile,
) -> list[Candidate]:
    """What the ranking for a signal reads of pods.

    Args:
        pods: (n,) active ones.
        stats: pod's UID -> statistics.
        signal: what is short, e.g. ``nodefs.inodesFree``.
        layout: where images and containers are.

    Raises:
        BadInputError: an amount cannot be asked for, or a number does not fit.
    """
    resource = RESOURCE_OF[signal]
    parts = measured_parts(signal, layout, profile.eviction)
    inodes = resource == "inodes"
    found: list[Candidate] = []
    for pod in pods:
        uid, priority = pod.metadata.uid or "", pod.spec.priority or 0
        known = stats.get(uid)
        if resource == "pids":
            usage = None if known is None else process_count(known)
            found.append(Candidate(uid, priority, usage))
            continue
        request = pod_request_nanos(pod, resource, profile)
        deducted = pod_request_nanos(pod, "ephemeral-storage", profile) if inodes else request
        if known is None:
            usage = None
        elif parts is None:
            usage = memory_usage(known)
        else:
            usage = disk_usage(pod, known, parts, profile.eviction, inodes=inodes)
        found.append(Candidate(uid, priority, usage, request, deducted))
    return found


def rank(pods: Iterable[Candidate], signal: str) -> tuple[tuple[Candidate, ...], ...]:
    """Groups of pods in the order of their eviction.

    Returns:
        (n,) groups, the first to be evicted first; those of one group are equal to the
        kubelet and stay in the order of ``pods``.

    Source: v1.36.2 pkg/kubelet/eviction/helpers.go rankMemoryPressure, rankPIDPressure,
        rankDiskPressureFunc; v1.19
    Differs: process counts that are 2**63 apart are not compared in a circle.
    """
    key = rank_key(signal)
    groups: dict[tuple[int, ...], list[Candidate]] = {}
    for pod in pods:
        groups.setdefault(key(pod), []).append(pod)
    return tuple(tuple(groups[each]) for each in sorted(groups))


def rank_key(signal: str) -> Callable[[Candidate], tuple[int, ...]]:
    """What sorts candidates for a signal: less goes first."""
    return _by_processes if RESOURCE_OF[signal] == "pids" else _by_usage


def rank_reason(first: Candidate, second: Candidate, signal: str) -> RankReason:
    """Why ``first`` goes before ``second``, of two in the order of ``rank``."""
    by_processes = RESOURCE_OF[signal] == "pids"
    key = rank_key(signal)
    if key(first) == key(second):
        return RankReason.EQUAL
    if by_processes and first.priority != second.priority:
        return RankReason.PRIORITY
    if (first.usage is None) != (second.usage is None):
        return RankReason.NO_STATISTICS
    if not by_processes and first.exceeds_request != second.exceeds_request:
        return RankReason.EXCEEDS_REQUEST
    return RankReason.PRIORITY if first.priority != second.priority else RankReason.USAGE


def ties_are_ordered(pods: Sequence[object], facts: EvictionFacts) -> bool:
    """Whether equals among so many pods are evicted in the order of the kubelet's list.

    Go's sort leaves equals alone in short lists only; see the fact ``ties_keep_their_order``.
    """
    most = _ORDERED_MAX if facts.ties_keep_their_order else _ORDERED_MAX_OF_OLD_SORT
    return len(pods) <= most


def _by_usage(pod: Candidate) -> tuple[int, ...]:
    if pod.usage is None:
        return (0, 0, pod.priority, 0)
    used = pod.usage * _NANOS
    return (1, used <= pod.request_nanos, pod.priority, pod.deducted_nanos - used)


def _by_processes(pod: Candidate) -> tuple[int, ...]:
    return (pod.priority, 0, 0) if pod.usage is None else (pod.priority, 1, -pod.usage)
