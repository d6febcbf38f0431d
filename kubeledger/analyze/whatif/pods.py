"""What the lists show of pods that would be there, and whether the node had memory for them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from kubeledger.kubelet.eviction.signals import ALLOCATABLE_MEMORY, MEMORY
from kubeledger.kubelet.eviction.thresholds import Threshold, threshold_quantity
from kubeledger.kubelet.kube.pod import GRACE_PERIOD_S
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError, value_of
from kubeledger.kubelet.kube.resources import is_extended_resource
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.lifecycle import PodAdmitted, PodConfigChanged, PodListed
from kubeledger.model.bodies.node import KubeletStarted, SettingsObserved
from kubeledger.model.units import NS_PER_S
from kubeledger.verify import Reader, Variant
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.processes import Processes
from kubeledger.verify.rules.evictions.thresholds import configured

_LISTS: Final = ("containers", "initContainers")


class Pods(msgspec.Struct, frozen=True):
    """The pods of a ledger, each as ``pod/NS/NAME``.

    Attributes:
        subjects: UID -> pod.
        gone: pod -> when one of that name had left the node.
        came: pod -> when one of that name is first recorded.
        claims: whether it asks for devices, or may get CPUs and memory of its own; a pod that is
            not in it may.
        memory_bytes: pod -> at most so much memory can it use, by its limits; None: any amount.
        grace_ns: pod -> how long its end may take.
        weightless: those that ask for nothing and count nowhere in the sums of cgroups.
        lasts: those that run until they are deleted, by their restart policy.
    """

    subjects: Mapping[str, str] = {}
    gone: Mapping[str, Sequence[int]] = {}
    came: Mapping[str, int] = {}
    claims: Mapping[str, bool] = {}
    memory_bytes: Mapping[str, int | None] = {}
    grace_ns: Mapping[str, int] = {}
    weightless: Collection[str] = ()
    lasts: Collection[str] = ()


def pods_of(read: Reader, variant: Variant) -> Pods:
    """Of all records; what pods ask for as it is under the variant."""
    subjects: dict[str, str] = {}
    gone: dict[str, list[int]] = {}
    came: dict[str, int] = {}
    claims: dict[str, bool] = {}
    memory: dict[str, int | None] = {}
    graces: dict[str, int] = {}
    ends: set[str] = set()
    weigh: set[str] = set()
    for each in read({PodAdmitted.kind, PodConfigChanged.kind, PodListed.kind}):
        record = variant.of(each)
        body = record.body
        assert isinstance(body, PodAdmitted | PodConfigChanged | PodListed)
        subject = f"pod/{body.namespace}/{body.pod}"
        if body.pod_uid is not None:
            subjects[body.pod_uid] = subject
        came[subject] = min(came.get(subject, record.ts_ns), record.ts_ns)
        left = isinstance(body, PodConfigChanged) and body.operation == "REMOVE"
        if left or (isinstance(body, PodListed) and body.gone):
            gone.setdefault(subject, []).append(record.ts_ns)
        if isinstance(body, PodListed) and body.spec is not None:
            claims[subject] = claims.get(subject, False) or _claims(body.spec)
            used, before = _memory_bytes(body.spec), memory.get(subject, 0)
            memory[subject] = None if used is None or before is None else max(used, before)
            if body.spec.get("restartPolicy", "Always") != "Always":
                ends.add(subject)
            if any(part for resources in _resources(body.spec) for part in resources.values()):
                weigh.add(subject)
            grace_s = body.spec.get("terminationGracePeriodSeconds", GRACE_PERIOD_S)
            graces[subject] = max(graces.get(subject, 0), int(grace_s or 0) * NS_PER_S)
    return Pods(
        subjects, gone, came, claims, memory, graces, claims.keys() - weigh, claims.keys() - ends
    )


def _resources(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    containers = [c for key in _LISTS for c in spec.get(key) or ()]
    return [container.get("resources") or {} for container in containers]


def _claims(spec: Mapping[str, Any]) -> bool:
    """Whether a container asks for devices, or the pod is Guaranteed: it may get CPUs then."""
    parts = _resources(spec)
    for resources in parts:
        for amounts in (resources.get("limits") or {}, resources.get("requests") or {}):
            if any(is_extended_resource(name) for name in amounts):
                return True
    return "resourceClaims" in spec or "resources" in spec or all(map(_is_guaranteed, parts))


def _is_guaranteed(resources: Mapping[str, Any]) -> bool:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    try:
        return all(
            Quantity.from_api(limits[name]) == Quantity.from_api(requests.get(name, limits[name]))
            for name in ("cpu", "memory")
        )
    except KeyError:
        return False
    except QuantityError:
        return True


def _memory_bytes(spec: Mapping[str, Any]) -> int | None:
    total = 0
    for resources in _resources(spec):
        try:
            total += value_of(str((resources.get("limits") or {})["memory"]))
        except (KeyError, QuantityError):
            return None
    return total


# Whether the node had memory to spare for pods that would be there besides.

_GRID_NS = 30 * NS_PER_S
"""Signals are read every ten seconds; a longer hole between them shows nothing."""


class SpareMemory:
    """By how much the signals of memory were over every threshold of a variant, when read."""

    def __init__(self, read: Reader, variant: Variant) -> None:
        """Two readings, of settings and of signals."""
        context = VerifyContext(variant)
        self._known = True
        thresholds: set[Threshold] = set()
        for record in read({kind.kind for kind in Processes.KINDS}):
            context.prescan(record)
        context.settle()
        starts = sorted(read({KubeletStarted.kind, SettingsObserved.kind}), key=lambda r: r.seq)
        for record in starts:
            context.observe(record)
            if isinstance(record.body, SettingsObserved):
                found, missing = configured(context.settings, context.profile, None)
                self._known &= not missing
                thresholds |= set(found)
        self._read_ns: list[int] = []
        self._spare: list[int] = []
        for record in read({EvictionSignalObserved.kind}):
            body = record.body
            assert isinstance(body, EvictionSignalObserved)
            if body.signal in (MEMORY, ALLOCATABLE_MEMORY):
                short = [_bytes(t, body.capacity) for t in thresholds if t.signal == body.signal]
                self._read_ns.append(record.ts_ns)
                self._spare.append(body.available - max(short, default=0))

    def holds(self, more_bytes: int, since_ns: int, until_ns: int) -> bool:
        """Whether no threshold would have been met with so much more in use, as far as is known."""
        first = max(bisect_left(self._read_ns, since_ns) - 1, 0)
        last = bisect_right(self._read_ns, until_ns)
        times = self._read_ns[first:last]
        if not self._known or not times or times[0] > since_ns:
            return False
        ends = [*times[1:], until_ns]
        if any(after - before > _GRID_NS for before, after in zip(times, ends, strict=True)):
            return False
        return min(self._spare[first:last]) > more_bytes


def _bytes(threshold: Threshold, capacity: int) -> int:
    """With what is to be reclaimed on top, so that a condition would not stay either."""
    more = threshold.minimum
    least = 0 if more is None else threshold_quantity(more, capacity).value()
    return threshold_quantity(threshold.value, capacity).value() + least
