"""Which sums of requests the kubelet can have reckoned with when it wrote the QoS level."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from kubeledger.cgroups.qos_config import QOSRequests
from kubeledger.verify.cgroups.life import Life
from kubeledger.verify.cgroups.lives import Lives
from kubeledger.verify.cgroups.pods import Rules
from kubeledger.verify.pods import PodRegister

__all__ = ["Sums", "sums_between"]

_MOST_SUMS: Final = 4096
"""With more sums than this nothing is said: almost any value would be among them."""

_SPEC: Final = "the spec of pod "


Part = tuple[str, QOSRequests]
"""``namespace/name`` of a pod, and what it requests."""


class Sums(msgspec.Struct, frozen=True):
    """Sums over the pods that can have been active.

    Attributes:
        usual: over those that were most likely.
        possible: all, ``usual`` among them.
        pods: how many pods ``usual`` is over.
        parts: pods of ``usual`` that request anything, each with what it requests.
        doubtful: those that may count or not.
        inputs: records of the specs with requests.
        missing: what must be known for more; then the sums say nothing.
        unknown: specs of pods that perhaps counted; a sum that is none of these may be right.
    """

    usual: QOSRequests
    possible: frozenset[QOSRequests]
    pods: int
    parts: tuple[Part, ...] = ()
    doubtful: tuple[Part, ...] = ()
    inputs: tuple[int, ...] = ()
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def by_sum(self) -> dict[QOSRequests, tuple[Part, ...]]:
        """Sums -> the pods they are of: the likeliest, and those with one pod more or less."""
        found = {_total([requests for _, requests in self.parts]): self.parts}
        for part in self.doubtful:
            others = tuple(other for other in self.parts if other != part)
            if len(others) == len(self.parts):
                others = (*others, part)
            found.setdefault(_total([requests for _, requests in others]), others)
        return found


def sums_between(lives: Lives, register: PodRegister, rules: Rules, start: int, end: int) -> Sums:
    """The sums of a write at some instant of a span."""
    sure: list[QOSRequests] = []
    perhaps: list[QOSRequests] = []
    usual: list[Part] = []
    doubtful: list[Part] = []
    inputs: list[int] = []
    missing: list[str] = []
    unknown: list[str] = []
    counted = 0
    for life in lives.all():
        if not life.may_count(start, end):
            continue
        listed = register.at(end, life.uid, life.namespace, life.name)
        requests = lives.requests.of(listed, rules)
        likely = _likely(life, start, end, rules)
        if requests is None or listed is None:
            named = f"{_SPEC}{life.namespace}/{life.name}"
            (unknown if life.vague else missing).append(named)
            continue
        counted += likely
        if not (
            requests.burstable_milli_cpu or requests.burstable_memory or requests.guaranteed_memory
        ):
            continue
        inputs.append(listed.seq)
        part = (f"{life.namespace}/{life.name}", requests)
        if life.must_count(start, end):
            sure.append(requests)
        else:
            perhaps.append(requests)
            doubtful.append(part)
        if likely:
            usual.append(part)
    total = _total(sure)
    possible = {total}
    for requests in perhaps:
        possible |= {_total((other, requests)) for other in possible}
        if len(possible) > _MOST_SUMS:
            missing.append("the order in which pods came and went")
            break
    most_likely = _total([requests for _, requests in usual])
    return Sums(
        most_likely,
        frozenset({*possible, most_likely}),
        counted,
        tuple(sorted(usual, key=lambda part: part[0])),
        tuple(doubtful),
        tuple(inputs),
        tuple(missing),
        tuple(unknown),
    )


def _likely(life: Life, start: int, end: int, rules: Rules) -> bool:
    """Whether it is taken to count where that is not certain.

    Before pod workers had a life cycle of their own (1.22) a pod that was to be killed got
    its final phase first; since then it counts until all of it is down.
    """
    if life.returned:
        return False
    over = life.ended
    if not rules.profile.cgroups.qos_update_names_root and life.killed:
        over = life.ending
    return life.since <= end and (over is None or over > end)


def _total(all_requests: Iterable[QOSRequests]) -> QOSRequests:
    milli_cpu = guaranteed = burstable = 0
    for requests in all_requests:
        milli_cpu += requests.burstable_milli_cpu
        guaranteed += requests.guaranteed_memory
        burstable += requests.burstable_memory
    return QOSRequests(milli_cpu, guaranteed, burstable)
