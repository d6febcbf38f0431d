"""What is filled in where a scenario says nothing: in pods as the API does, and in settings."""

from __future__ import annotations

from copy import deepcopy
from hashlib import md5
from typing import Any, Literal

import msgspec

from kubeledger.analyze.whatif.settings import refusal
from kubeledger.ingest.correlate.settings import SettingsSources, Statement, effective_settings
from kubeledger.ingest.messages.settings_flags import FLAGS, minor_version
from kubeledger.kubelet.kube.configuration import FIELDS, problem
from kubeledger.kubelet.kube.pod import CONTAINER, GRACE_PERIOD_S, HTTP_GET, POD_SPEC, PROBE
from kubeledger.kubelet.kube.podtotals import staged_total
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.kube.resources import (
    NANOS,
    ResourceList,
    is_extended_resource,
    is_pod_level_resource,
)
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.simulate.engine.schedule import Draws
from kubeledger.simulate.scenario.models import Scenario
from kubeledger.simulate.scenario.pod_types import PRIORITY_CLASSES
from kubeledger.simulate.scenario.problems import Path, Problems, suggestion

# The UID of a static pod: a hash of where it comes from and what it says, never drawn.
#
# Source: v1.20.2 and v1.36.2 pkg/kubelet/config/common.go applyDefaults
# Differs: the kubelet hashes the pod as its version's Go structs print it; here its canonical
#     JSON stands for that. So a UID changes with the node, the file and anything in the pod,
#     as the kubelet's does, but has other digits.

_FNV_SINCE = 35
_FNV_OFFSET = 0x6C62272E07BB014262B821756295C58D
_FNV_PRIME = 0x0000000001000000000000000000013B
_MASK = (1 << 128) - 1


def static_uid(pod: dict[str, Any], node: str, file: str, minor: int) -> str:
    """32 hexadecimal digits.

    Args:
        pod: with the API's defaults, and without what the kubelet adds.
        file: path of its manifest on the node.
        minor: of the kubelet's version: MD5 before 1.35, FNV-1a of 128 bits from then on.
    """
    text = msgspec.json.encode(pod, order="deterministic") + f"host:{node}file:{file}".encode()
    if minor < _FNV_SINCE:
        return md5(text, usedforsecurity=False).hexdigest()
    digest = _FNV_OFFSET
    for byte in text:
        digest = (digest ^ byte) * _FNV_PRIME & _MASK
    return f"{digest:032x}"


# Resources of a pod as a whole: whether they are kept, and their defaults.

_POD_LEVEL_SINCE = 32
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
    if not gate_is_on or minor < _POD_LEVEL_SINCE or not given:
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


# A pod as the kubelet gets it: with the API's defaults, a UID and the source's annotations.

_NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod's defaults depend on beside the pod.

    Attributes:
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


def drawn_hash(draws: Draws) -> str:
    """A hexadecimal text of 64 digits, as hashes are written."""
    return "".join(f"{draws.bits():016x}" for _ in range(4))


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
        source: ``file`` makes it a static pod: its UID is a hash, its name ends with the node's.
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


# Which fields the configuration of a kubelet version has, and defaults without a flag.
#
# Source: v1.19 to v1.36.2 pkg/kubelet/apis/config/types.go KubeletConfiguration;
#     pkg/kubelet/apis/config/v1beta1/defaults.go SetDefaults_KubeletConfiguration

_SINCE = {
    "cpuManagerPolicyOptions": 22, "failCgroupV1": 31, "localStorageCapacityIsolation": 25,
    "memoryManagerPolicy": 21, "reservedMemory": 21, "seccompDefault": 22,
    "topologyManagerPolicyOptions": 26, "topologyManagerScope": 20,
}  # fmt: skip
"""Fields with a flag, and the minor version of the field where that is later than 1.19."""

_UNFLAGGED: dict[str, tuple[tuple[int, Any], ...]] = {
    "configMapAndSecretChangeDetectionStrategy": ((0, "Watch"),),
    "containerLogMaxWorkers": ((30, 1),),
    "containerLogMonitorInterval": ((30, "10s"),),
    "enableDebugFlagsHandler": ((21, True),),
    "enableProfilingHandler": ((21, True),),
    "enableSystemLogHandler": ((0, True),),
    "enableSystemLogQuery": ((27, False),),
    "imageMaximumGCAge": ((29, "0s"),),
    "imagePullCredentialsVerificationPolicy": ((33, ""), (35, "NeverVerifyPreloadedImages")),
    "maxParallelImagePulls": ((27, None),),
    "memoryReservationPolicy": ((36, "None"),),
    "memorySwap": ((22, {"swapBehavior": ""}),),
    "memoryThrottlingFactor": ((22, 0.8), (27, 0.9), (37, None)),
    "mergeDefaultEvictionSettings": ((33, False),),
    "nodeLeaseDurationSeconds": ((0, 40),),
    "nodeStatusReportFrequency": ((0, "5m0s"),),
    "podLogsDir": ((30, "/var/log/pods"),),
    "preloadedImagesVerificationAllowlist": ((33, None),),
    "showHiddenMetricsForVersion": ((0, ""),),
    "shutdownGracePeriod": ((20, "0s"),),
    "shutdownGracePeriodByPodPriority": ((23, None),),
    "shutdownGracePeriodCriticalPods": ((20, "0s"),),
    "singleProcessOOMKill": ((32, None),),
    "tlsCurvePreferences": ((36, None),),
    "tracing": ((25, None),),
    "userNamespaces": ((33, None),),
}
"""Field -> (minor version from which on it holds, default); before the first: no such field."""


def has_field(name: str, minor: int) -> bool:
    """Whether the configuration of a minor version has a field; one without a row has always."""
    rows = _UNFLAGGED.get(name)
    return minor >= (rows[0][0] if rows else _SINCE.get(name, 0))


def unflagged_defaults(minor: int, given: dict[str, Any]) -> dict[str, Any]:
    """Defaults of the fields that no flag sets and that are not given."""
    found: dict[str, Any] = {}
    for name, rows in _UNFLAGGED.items():
        if given.get(name) is None and has_field(name, minor):
            found[name] = [value for since, value in rows if since <= minor][-1]
    # Who sets how often a status is written means how often it is reported.
    if "nodeStatusReportFrequency" in found and (often := given.get("nodeStatusUpdateFrequency")):
        found["nodeStatusReportFrequency"] = often
    return found


# The kubelet's effective settings: a configuration as written, and its version's defaults.

_TYPE_FIELDS = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
_NO_START = "no kubelet starts with it"


def read_settings(
    scenario: Scenario, config: tuple[dict[str, Any], Path], problems: Problems
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is given, and what it comes to with defaults: field -> value.

    What no kubelet takes is noted and left out.
    """
    fields, at = config
    for name, expected in _TYPE_FIELDS.items():
        if fields.get(name, expected) != expected:
            problems.add((*at, name), f"must be {expected}", "give a KubeletConfiguration")
    sound: dict[str, Any] = {}
    for name, value in fields.items():
        if name in _TYPE_FIELDS:
            continue
        if name not in FIELDS:
            advice = suggestion(name, FIELDS)
            problems.add((*at, name), "there is no such field of KubeletConfiguration", advice)
        elif value is not None and (reason := problem(name, value)):
            problems.add((*at, name), reason, _NO_START)
        else:
            sound[name] = value
    driver = scenario.node.cgroup_driver
    if driver is not None and sound.setdefault("cgroupDriver", driver) != driver:
        said = sound["cgroupDriver"]
        problems.add(
            ("node", "cgroupDriver"), f"is {driver}, the configuration says {said}", "keep one"
        )
    settings = effective(sound, minor_version(scenario.kubelet_version))
    if reason := refusal(settings, {}, scenario.kubelet_version):
        problems.add(at, reason, _NO_START)
    return sound, settings


def effective(fields: dict[str, Any], minor: int | None) -> dict[str, Any]:
    """With the defaults of a minor version.

    Args:
        fields: of KubeletConfiguration; null stands for a field that is left out.
        minor: None: only defaults that never changed.
    """
    evidence = Evidence(file="scenario")
    flags = {
        row.flag: Statement(value=row.default(minor or 0), evidence=evidence)
        for row in FLAGS
        if (minor is not None and minor >= row.since and has_field(row.field, minor))
        or (minor is None and len(row.defaults) == 1)
    }
    # Without any field there is a file all the same: kubelets are started with one.
    files = [Statement(value=fields, evidence=evidence)]
    observed = effective_settings(SettingsSources(minor=minor, files=files, flags=flags))
    found = {
        name: setting.decoded()
        for name, setting in observed.settings.items()
        if not name.startswith("--")
    }
    return found if minor is None else {**unflagged_defaults(minor, fields), **found}
