"""Which sums of requests the kubelet can have reckoned with when it wrote the QoS level."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, overload

import msgspec

from kubeledger.cgroups.qos_config import QOSRequests, qos_requests
from kubeledger.errors import BadInputError
from kubeledger.kube.amounts import check_asked
from kubeledger.kube.pod import Pod, lists_of_pods
from kubeledger.kube.quantity import QuantityError
from kubeledger.profile.resolve import KubeletProfile
from kubeledger.verify.bench import Bench
from kubeledger.verify.pods import ListedPod
from kubeledger.verify.rules.cgroups.settings import Rules

__all__ = ["Span", "Summer", "Sums"]

_MOST_SUMS: Final = 4096
"""Of more sums than this only the least and the most are told."""
_KEPT_MAX: Final = 1024

Part = tuple[str, QOSRequests]
"""``namespace/name`` of a pod, and what it requests."""


class Span(Sequence[int]):
    """Whole numbers, or texts of such, of which only the ends are known."""

    def __init__(self, first: int, ends: tuple[int, int]) -> None:
        """``first`` is the likeliest."""
        self._first, self._ends = first, ends

    def __contains__(self, value: object) -> bool:
        low, high = self._ends
        return str(value).isdecimal() and low <= int(str(value)) <= high

    def __len__(self) -> int:
        return self._ends[1] - self._ends[0] + 1

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        return self._first


class Sums(msgspec.Struct, frozen=True):
    """Sums over the pods that can have been active.

    Attributes:
        usual: over those that were most likely.
        possible: all, ``usual`` first; where there are too many, ``usual``, the least, the most.
        exact: these are all.
        pods: how many pods ``usual`` is over.
        parts: sum -> the pods that it is over, each with what it requests (those that request
            nothing are left out): of the usual one, and of those with one pod more or less.
        inputs: records of the specs with requests.
        missing: what must be known for more; then the sums say nothing.
        unknown: what may be otherwise, so that a sum that is none of these may be right.
    """

    usual: QOSRequests
    possible: tuple[QOSRequests, ...]
    exact: bool
    pods: int
    parts: Mapping[QOSRequests, tuple[Part, ...]] = {}
    inputs: tuple[int, ...] = ()
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class Summer:
    """Sums what active pods request."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._known: dict[int, tuple[ListedPod, QOSRequests | None]] = {}
        self._profile: KubeletProfile | None = None

    def between(self, start_ns: int, end_ns: int, rules: Rules) -> Sums:
        """The sums of a write at some instant of a span."""
        active = self._bench.timeline.active(start_ns, end_ns)
        sure: list[QOSRequests] = []
        perhaps: list[Part] = []
        usual: list[Part] = []
        inputs: list[int] = []
        missing: list[str] = []
        unknown = [] if active.loss is None else [active.loss.phrase]
        counted = 0
        certain = {life.full_name for life in active.must.values()}
        static = {life.full_name for life in active.may.values() if life.is_static}
        for key, life in active.may.items():
            if life.full_name in static and not life.is_static:
                continue  # the API's image of a static pod
            listed = self._bench.pods.at(end_ns, life.uid, life.namespace, life.name)
            if listed is None and life.is_static:  # its image in the API has its spec
                listed = self._bench.pods.at(end_ns, None, life.namespace, life.name)
            requests = self._requests(listed, rules)
            if requests is None or listed is None:
                named = f"the spec of pod {life.full_name}"
                (missing if key in active.must else unknown).append(named)
                continue
            over_ns = life.ended_ns
            likely = not life.returned and (over_ns is None or over_ns > end_ns)
            likely = likely and not (life.vague and life.full_name in certain)
            counted += likely
            if requests == QOSRequests(0, 0, 0):
                continue
            inputs.append(listed.seq)
            part = (life.full_name, requests)
            if key in active.must:
                sure.append(requests)
            else:
                perhaps.append(part)
            if likely:
                usual.append(part)
        most_likely = _total(requests for _, requests in usual)
        possible, exact = _subsets(most_likely, _total(sure), [of for _, of in perhaps])
        return Sums(
            most_likely,
            possible,
            exact,
            counted,
            _parts(tuple(sorted(usual, key=lambda part: part[0])), perhaps),
            tuple(inputs),
            tuple(missing),
            tuple(unknown),
        )

    def _requests(self, listed: ListedPod | None, rules: Rules) -> QOSRequests | None:
        """What a pod requests; None where its spec is not known, or cannot be read."""
        if listed is None:
            return None
        if self._profile is not rules.profile or len(self._known) >= _KEPT_MAX:
            self._known.clear()
            self._profile = rules.profile
        known = self._known.get(listed.seq)
        if known is None or known[0] is not listed:
            known = self._known[listed.seq] = (listed, _requests(listed, rules))
        return known[1]


def _requests(listed: ListedPod, rules: Rules) -> QOSRequests | None:
    try:
        pods = (listed.as_(Pod),)
        check_asked(lists_of_pods(pods))
        return qos_requests(pods, rules.profile.cgroups)
    except (msgspec.ValidationError, BadInputError, QuantityError):
        return None


def _parts(
    usual: tuple[Part, ...], doubtful: Sequence[Part]
) -> Mapping[QOSRequests, tuple[Part, ...]]:
    found = {_total(of for _, of in usual): usual}
    for part in doubtful:
        others = tuple(each for each in usual if each != part)
        parts = others if len(others) < len(usual) else (*usual, part)
        found.setdefault(_total(of for _, of in parts), parts)
    return found


def _subsets(
    usual: QOSRequests, sure: QOSRequests, perhaps: Sequence[QOSRequests]
) -> tuple[tuple[QOSRequests, ...], bool]:
    """Each sum that some of the doubtful pods give, and whether these are all."""
    possible = {sure}
    for requests in perhaps:
        possible |= {_total((other, requests)) for other in possible}
        if len(possible) > _MOST_SUMS:
            return (usual, sure, _total((sure, *perhaps))), False
    return (usual, *sorted(possible - {usual}, key=_order)), True


def _order(requests: QOSRequests) -> tuple[int, int, int]:
    return (requests.burstable_milli_cpu, requests.guaranteed_memory, requests.burstable_memory)


def _total(all_requests: Iterable[QOSRequests]) -> QOSRequests:
    milli_cpu = guaranteed = burstable = 0
    for requests in all_requests:
        milli_cpu += requests.burstable_milli_cpu
        guaranteed += requests.guaranteed_memory
        burstable += requests.burstable_memory
    return QOSRequests(milli_cpu, guaranteed, burstable)
