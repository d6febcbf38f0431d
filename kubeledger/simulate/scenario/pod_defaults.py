"""A pod as the kubelet gets it: with the API's defaults, a UID and the source's annotations."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Literal

import msgspec

from kubeledger.kubelet.kube.defaults import CONTAINER, GRACE_PERIOD_S, HTTP_GET, POD_SPEC, PROBE
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.simulate.engine.draws import Draws
from kubeledger.simulate.scenario.pod_level import default_pod_level
from kubeledger.simulate.scenario.pod_types import PRIORITY_CLASSES
from kubeledger.simulate.scenario.static_uid import static_uid

_NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod's defaults depend on beside the pod.

    Attributes:
        node: name of the node.
        minor: of the version of API server and kubelet.
        pod_level_resources: the feature of that name is on.
        static_path: directory of static pods' manifests.
    """

    node: str
    minor: int
    pod_level_resources: bool
    static_path: str


def drawn_uid(draws: Draws) -> str:
    """A random UID as the API server makes them (RFC 4122, version 4)."""
    high, low = draws.bits(), draws.bits()
    high = high & ~0xF000 | 0x4000
    low = low & ~(0b11 << 62) | 0b10 << 62
    text = f"{high:016x}{low:016x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def drawn_hash(draws: Draws, digits: int) -> str:
    """A hexadecimal text, as hashes are written."""
    text = "".join(f"{draws.bits():016x}" for _ in range(-(-digits // 16)))
    return text[:digits]


def defaulted(
    manifest: dict[str, Any],
    *,
    cluster: Cluster,
    source: Literal["api", "file"],
    created_ns: int,
    draws: Draws,
    suffix: str = "",
) -> dict[str, Any]:
    """The pod as the kubelet holds it.

    Args:
        manifest: as the user wrote it, checked; it is not changed.
        cluster: where it comes to.
        source: ``file`` makes it a static pod: its UID is a hash, its name ends with the node's.
        created_ns: when it came to be.
        draws: where the UID of one that is not static comes from.
        suffix: of its name, for replicas.

    Source: v1.20.2 pkg/apis/core/v1/defaults.go; pkg/kubelet/config/common.go applyDefaults;
        plugin/pkg/admission/{priority,defaulttolerationseconds}
    Differs: of a static pod's UID, see ``static_uid``.
    """
    pod = deepcopy(manifest)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"], "spec": pod["spec"]}
    meta, spec = pod["metadata"], pod["spec"]
    meta["namespace"] = meta.get("namespace") or "default"
    meta["name"] += suffix
    _default_spec(spec, cluster)
    if source == "file" and not meta.get("uid"):
        file = f"{cluster.static_path}/{meta['name']}.yaml"
        meta["uid"] = static_uid(pod, cluster.node, file, cluster.minor)
    annotations = meta["annotations"] = dict(meta.get("annotations") or {})
    annotations["kubernetes.io/config.seen"] = format_ts(created_ns)
    annotations["kubernetes.io/config.source"] = source
    if source == "file":
        uid = meta["uid"]
        meta["name"] = f"{meta['name']}-{cluster.node.lower()}"
        annotations["kubernetes.io/config.hash"] = uid
        _tolerate(spec, {"operator": "Exists", "effect": "NoExecute"})
    else:
        meta["uid"] = meta.get("uid") or drawn_uid(draws)
        meta["creationTimestamp"] = format_ts(created_ns // NS_PER_S * NS_PER_S)
        _admit(spec)
    spec["nodeName"] = cluster.node
    return pod


def _admit(spec: dict[str, Any]) -> None:
    """What the API server's admission adds."""
    priority = PRIORITY_CLASSES.get(spec.get("priorityClassName") or "", 0)
    spec.setdefault("priority", priority)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("serviceAccountName", "default")
    tolerated = {each.get("key") for each in spec.get("tolerations") or ()}
    for key in _NOT_READY:
        if key not in tolerated and None not in tolerated:
            toleration = {"key": key, "operator": "Exists", "effect": "NoExecute"}
            _tolerate(spec, {**toleration, "tolerationSeconds": 300})


def _tolerate(spec: dict[str, Any], toleration: dict[str, Any]) -> None:
    spec["tolerations"] = [*(spec.get("tolerations") or ()), toleration]


def _default_spec(spec: dict[str, Any], cluster: Cluster) -> None:
    for name, value in POD_SPEC.items():
        spec.setdefault(name, deepcopy(value))
    if spec["terminationGracePeriodSeconds"] is None:
        spec["terminationGracePeriodSeconds"] = GRACE_PERIOD_S
    if spec.get("resources"):
        spec["resources"] = _written(spec["resources"])
    for container in [*(spec.get("initContainers") or ()), *spec["containers"]]:
        _default_container(container, host_network=bool(spec.get("hostNetwork")))
    default_pod_level(spec, cluster.minor, gate_is_on=cluster.pod_level_resources)


def _written(resources: dict[str, Any]) -> dict[str, Any]:
    """Amounts as the API writes them: ``1000m`` is ``1``."""
    return {
        key: {name: str(Quantity.from_api(amount)) for name, amount in (value or {}).items()}
        if key in ("requests", "limits")
        else value
        for key, value in resources.items()
    }


def _default_container(container: dict[str, Any], *, host_network: bool) -> None:
    image = container["image"]
    for name, text in CONTAINER.items():
        container.setdefault(name, text)
    tag = image.rpartition("/")[2].partition(":")[2]
    is_latest = "@" not in image and tag in ("", "latest")
    container.setdefault("imagePullPolicy", "Always" if is_latest else "IfNotPresent")
    resources = container["resources"] = _written(container.get("resources") or {})
    if limits := resources.get("limits"):
        resources["requests"] = {**limits, **(resources.get("requests") or {})}
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host_network:
            port.setdefault("hostPort", port.get("containerPort"))
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe := container.get(key):
            for name, value in PROBE.items():
                probe[name] = probe.get(name) or value
            if http := probe.get("httpGet"):
                for name, text in HTTP_GET.items():
                    http.setdefault(name, text)
