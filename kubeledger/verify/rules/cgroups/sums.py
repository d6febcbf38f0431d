"""Which sums of requests the kubelet can have used when it wrote the QoS level."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from operator import add
from typing import Final

import msgspec

from kubeledger.kubelet.cgroups.qos_config import qos_requests
from kubeledger.kubelet.kube.amounts import check_asked
from kubeledger.kubelet.kube.pod import Pod, lists_of_pods
from kubeledger.kubelet.kube.quantity import QuantityError
from kubeledger.kubelet.profile.cgroups import CgroupFacts
from kubeledger.model.errors import BadInputError
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.pods import ListedPod
from kubeledger.verify.rules.cgroups.pods import differing_resources
from kubeledger.verify.rules.cgroups.settings import Rules

_MOST_SUMS: Final = 4096
"""More sums than this are any sum."""
_KEPT_MAX: Final = 1024

Amounts = tuple[int, ...]
"""Millicores of Burstable pods, bytes of Guaranteed and of Burstable pods; or some of these."""
_NOTHING: Final = (0, 0, 0)
_CPU: Final = slice(0, 1)
_MEMORY: Final = slice(1, 3)


class Sums(msgspec.Struct, frozen=True):
    """Sums over the pods that can have been active.

    Attributes:
        usual: over those that were most likely.
        cpu: all that Burstable pods can have requested, in millicores, that of ``usual`` first;
            empty where there are too many.
        memory: the same of bytes of Guaranteed and Burstable pods.
        pods: how many pods ``usual`` is over.
        parts: ``namespace/name`` of those that request CPU -> millicores.
        missing: what must be known for more; then the sums say nothing.
        unknown: what may differ, so that another sum than these may be right.
    """

    usual: Amounts
    cpu: list[int]
    memory: list[Amounts]
    pods: int
    parts: dict[str, int]
    inputs: tuple[int, ...]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]


class Summer:
    """Sums what active pods request."""

    def __init__(self, context: VerifyContext) -> None:
        self._context = context

    def between(self, start_ns: int, end_ns: int, rules: Rules) -> Sums:
        """The sums of a write at some instant of a span."""
        active = self._context.timeline.active(start_ns, end_ns)
        sure: list[Amounts] = []
        perhaps: list[Amounts] = []
        usual: dict[str, Amounts] = {}
        inputs: list[int] = []
        missing: list[str] = []
        unknown = [] if active.loss is None else [active.loss.phrase]
        certain = {interval.full_name for interval in active.must.values()}
        static = {interval.full_name for interval in active.may.values() if interval.is_static}
        for key, interval in active.may.items():
            if interval.full_name in static and not interval.is_static:
                continue  # the API's image of a static pod
            listed = self._context.pods.at(end_ns, interval.uid, interval.namespace, interval.name)
            if listed is None and interval.is_static:  # its image in the API has its spec
                listed = self._context.pods.at(end_ns, None, interval.namespace, interval.name)
            requests = None if listed is None else _requests(listed, rules.profile.cgroups)
            if requests is None or listed is None:
                named = f"the spec of pod {interval.full_name}"
                (missing if key in active.must else unknown).append(named)
                continue
            if rules.resizes(listed) and self._was_resized(listed, start_ns):
                unknown.append(f"the resources that pod {interval.full_name} had then")
            over = interval.ended_ns is not None and interval.ended_ns <= end_ns
            if not (
                interval.returned
                or over
                or (interval.start_time_unknown and interval.full_name in certain)
            ):
                usual[key] = requests
            if requests != _NOTHING:
                inputs.append(listed.seq)
                (sure if key in active.must else perhaps).append(requests)
        likely, least = _total(usual.values()), _total(sure)
        asking = {active.may[key].full_name: amounts[0] for key, amounts in usual.items()}
        return Sums(
            likely,
            [milli for (milli,) in _subsets(_CPU, likely, least, perhaps)],
            _subsets(_MEMORY, likely, least, perhaps),
            len(usual),
            {name: milli for name, milli in sorted(asking.items()) if milli},
            tuple(inputs),
            tuple(missing),
            tuple(unknown),
        )

    def _was_resized(self, listed: ListedPod, start_ns: int) -> bool:
        """Whether the lists around show other resources, so that it may have had any between.

        So may a pod that was changed since a time, and before any list.
        """
        if self._context.pods.changed_unseen(start_ns, listed):
            return True
        versions = self._context.pods.versions(listed)
        at = versions.index(listed) if listed in versions else 0
        around = versions[max(at - 1, 0) : at + 2]
        return any(differing_resources(*pair) is not None for pair in pairwise(around))


@lru_cache(maxsize=_KEPT_MAX)
def _requests(listed: ListedPod, facts: CgroupFacts) -> Amounts | None:
    """What a pod requests; None where its spec cannot be read."""
    try:
        pods = (listed.as_(Pod),)
        check_asked(lists_of_pods(pods))
        return msgspec.structs.astuple(qos_requests(pods, facts))
    except (msgspec.ValidationError, BadInputError, QuantityError):
        return None


def _total(amounts: Iterable[Amounts]) -> Amounts:
    return tuple(sum(each) for each in zip(_NOTHING, *amounts, strict=True))


def _subsets(of: slice, usual: Amounts, sure: Amounts, perhaps: list[Amounts]) -> list[Amounts]:
    """Each sum with some of the doubtful pods, the usual one first; empty where too many."""
    possible = {sure[of]}
    for amounts in perhaps:
        possible |= {tuple(map(add, each, amounts[of])) for each in possible}
        if len(possible) > _MOST_SUMS:
            return []
    return [usual[of], *sorted(possible - {usual[of]})]
