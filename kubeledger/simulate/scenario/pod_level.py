"""Resources of a pod as a whole: whether they are kept, and their defaults."""

from __future__ import annotations

from typing import Any

from kubeledger.kubelet.kube.amounts import NANOS
from kubeledger.kubelet.kube.names import is_extended_resource, is_pod_level_resource
from kubeledger.kubelet.kube.podtotals import staged_total
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.kube.requests import ResourceList

_SINCE = 32
_HUGE_PAGES_SINCE = 33
_HUGE_PAGES = "hugepages-"
_NANO = -9


def default_pod_level(spec: dict[str, Any], minor: int, *, gate_is_on: bool) -> None:
    """Fill in ``spec.resources``, or take it away where it is not known or not allowed.

    Args:
        spec: of the pod; its containers have their defaults already.
        minor: of the version: huge pages count from 1.33 on.
        gate_is_on: the feature ``PodLevelResources``.

    Source: v1.32 to v1.36.2 pkg/apis/core/v1/defaults.go SetDefaults_Pod defaultPodRequests
        defaultHugePagePodLimits; pkg/api/pod/util.go dropDisabledPodLevelResources
    Differs: a static pod keeps nothing either where the gate is off; no kubelet looks at it.
    """
    given = spec.get("resources")
    if not gate_is_on or minor < _SINCE or not given:
        spec.pop("resources", None)
        return
    limits, requests = dict(given.get("limits") or {}), dict(given.get("requests") or {})
    if minor >= _HUGE_PAGES_SINCE and (limits or requests):
        for name, amount in _of_containers(spec, "limits").items():
            if name.startswith(_HUGE_PAGES) and name not in requests:
                limits.setdefault(name, amount)
    if limits:
        for name, amount in _of_containers(spec, "requests").items():
            if is_pod_level_resource(name) and not name.startswith(_HUGE_PAGES):
                requests.setdefault(name, amount)
        for name, amount in limits.items():
            if is_pod_level_resource(name):
                requests.setdefault(name, amount)
    filled = {**given, "limits": limits, "requests": requests}
    spec["resources"] = {key: value for key, value in filled.items() if value}


def _of_containers(spec: dict[str, Any], key: str) -> dict[str, str]:
    """What the containers need together at the worst moment."""
    apps: list[ResourceList] = [_listed(each, key) for each in spec["containers"]]
    inits = [
        (_listed(each, key), each.get("restartPolicy") == "Always")
        for each in spec.get("initContainers") or ()
    ]
    names = sorted({name for each in (*apps, *(each for each, _ in inits)) for name in each})
    found: dict[str, str] = {}
    for name in names:
        if not is_extended_resource(name):
            nanos = staged_total((apps, inits), name, NANOS, sidecars=True)
            # A sum is written as the first of its parts.
            first = next(r[name] for r in (*apps, *(each for each, _ in inits)) if name in r)
            found[name] = str(Quantity(nanos, _NANO, Quantity.from_api(first).format))
    return found


def _listed(container: dict[str, Any], key: str) -> ResourceList:
    return (container.get("resources") or {}).get(key) or {}
