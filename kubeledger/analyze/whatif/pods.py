"""What the lists show of each pod, for those that would be on the node, or not, otherwise."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from kubeledger.kubelet.kube.defaults import GRACE_PERIOD_S
from kubeledger.kubelet.kube.names import is_extended_resource
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError, value_of
from kubeledger.model.bodies.lifecycle import PodAdmitted, PodConfigChanged, PodListed
from kubeledger.model.units import NS_PER_S
from kubeledger.verify import Reader, Variant

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
