"""A pod, of a list, a ledger or the kubelet itself; and its probes: who is asked, where, how."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from kubeledger.ingest.sources.pod_lists import pods_of, values_of
from kubeledger.kubelet.kube.pod import GRACE_PERIOD_S, HTTP_GET, PROBE
from kubeledger.kubelet.kube.statuses import ALWAYS
from kubeledger.kubelet.prober.objects import Container, Pod, Probe
from kubeledger.kubelet.prober.prober import ContainerPort, Handler, ProbeHandler, handler_of
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.bodies.prober import ProbeType
from kubeledger.model.errors import BadInputError, BadQuestionError
from kubeledger.model.units import format_ts
from kubeledger.record.sources.endpoints import KubeletClient, RefusedError, UnreachableError

_BUILD_INFO = re.compile(rb'^kubernetes_build_info\{[^}]*git_version="([^"]+)"', re.MULTILINE)


class FoundPod(msgspec.Struct):
    """A pod, and the version of its kubelet.

    Attributes:
        raw: the API's JSON; of a ledger as far as that keeps it.
        kubelet_version: as the source has it; None where it does not say.
        source: in words.
    """

    raw: dict[str, Any]
    kubelet_version: str | None
    source: str


def pod_in_list(data: bytes, source: str, namespace: str, name: str) -> FoundPod:
    """A pod of a list; ``source`` is where the list came from, in words.

    Raises:
        BadInputError: it is not a list of pods.
        BadQuestionError: the pod is not in it.
    """
    return FoundPod(_pod(data, source, namespace, name), None, source)


def pod_of_kubelet(client: KubeletClient, url: str, namespace: str, name: str) -> FoundPod:
    """A pod as its kubelet lists it, and the version that its metrics name.

    Raises:
        BadInputError: the kubelet does not answer with a list.
        BadQuestionError: the pod is not on its node.
    """
    try:
        pods = client.get("/pods")
    except (UnreachableError, RefusedError) as error:
        raise BadInputError(
            f"{url}/pods: {error}",
            advice="--token FILE with a token that may read nodes/pods or nodes/proxy, "
            "--ca FILE, or --insecure",
        ) from None
    raw = _pod(pods, f"{url}/pods", namespace, name)
    try:
        found = _BUILD_INFO.search(client.get("/metrics"))
    except (UnreachableError, RefusedError):
        found = None
    return FoundPod(raw, found[1].decode("utf-8", "replace") if found else None, f"{url}/pods")


def pod_in_ledger(path: Path, node: str | None, namespace: str, name: str) -> FoundPod:
    """A pod as it was listed last, on whatever node, and the version of that node's kubelet.

    Raises:
        BadQuestionError: no ledger, no list in it shows the pod, or it is gone since.
    """
    versions: dict[str, str] = {}
    listed: dict[str | None, tuple[int, str, PodListed]] = {}
    for record in Ledger.open(path).records(node, kinds=(PodListed.kind, KubeletStarted.kind)):
        body = record.body
        if isinstance(body, KubeletStarted):
            version = body.version_text or body.kubelet_version
            versions |= {record.node: version} if version else {}
        elif isinstance(body, PodListed) and (body.namespace, body.pod) == (namespace, name):
            former = listed.get(body.pod_uid)
            if former is None or former[0] <= record.ts_ns:
                listed[body.pod_uid] = record.ts_ns, record.node, body
    there = [each for each in listed.values() if not each[2].gone]
    if not there:
        ended_ns = max((ts_ns for ts_ns, _, _ in listed.values()), default=None)
        gone = f" any more: it was gone at {format_ts(ended_ns)}" if ended_ns is not None else ""
        raise BadQuestionError(
            f"no pod list in {path} shows {namespace}/{name}{gone}",
            advice="kubeledger get pods, or give a list with --pods",
        )
    # A manifest of the same pod has no status, and so no IP.
    _, of_node, last = max(there, key=lambda each: (each[2].status is not None, each[0]))
    metadata = {"namespace": namespace, "name": name, "uid": last.pod_uid or ""}
    raw = {"metadata": metadata, "spec": last.spec or {}, "status": last.status or {}}
    return FoundPod(raw, versions.get(of_node), str(path))


def _pod(data: bytes, source: str, namespace: str, name: str) -> dict[str, Any]:
    flaws: list[str] = []
    try:
        pods, _, _ = pods_of(values_of(data, flaws), flaws)
    except ValueError as error:
        raise BadInputError(f"no list of pods: {error}", file=source) from None
    for pod in pods:
        metadata = pod["metadata"]
        if (metadata.get("namespace") or "default", metadata.get("name")) == (namespace, name):
            return pod
    if not pods:
        raise BadInputError("holds no pods", file=source, advice="kubectl get pods -A -o json")
    like = [
        f"{p['metadata'].get('namespace') or 'default'}/{p['metadata'].get('name')}" for p in pods
    ]
    near = [each for each in like if name in each] or like
    raise BadQuestionError(
        f"pod {namespace}/{name} is not in {source}", advice=f"there are: {', '.join(near[:8])}"
    )


PROBE_TYPES: tuple[ProbeType, ...] = ("startup", "readiness", "liveness")
"""In the order in which the kubelet makes their workers."""


class PodTarget(msgspec.Struct, kw_only=True):
    """A pod.

    Attributes:
        pod: as the prober reads it, with the defaults that the API server gives.
        ip: the first of its IPs, which is the one that probes go to; empty for none.
    """

    namespace: str
    name: str
    pod: Pod
    ip: str
    raw: dict[str, Any]

    @property
    def host_network(self) -> bool:
        """Whether its IP is the node's."""
        return bool((self.raw.get("spec") or {}).get("hostNetwork"))


class ProbePlan(msgspec.Struct, kw_only=True):
    """One probe of one container.

    Attributes:
        container: as the prober reads it.
        spec: its times and thresholds.
        handlers: of the spec, with the API server's defaults.
        handler: that this version asks; None for none it knows.
        grace_s: of a kill by this probe.
    """

    container: Container
    probe_type: ProbeType
    spec: Probe
    handlers: ProbeHandler
    handler: Handler | None
    ports: tuple[ContainerPort, ...] = ()
    grace_s: int = GRACE_PERIOD_S


class _Grace(msgspec.Struct, rename="camel"):
    """Of a pod's spec, or of a probe's."""

    termination_grace_period_seconds: int | None = None


def pod_target(raw: dict[str, Any], address: str | None = None) -> PodTarget:
    """Read a pod.

    Args:
        address: to probe instead of the pod's IP.

    Raises:
        BadInputError: not a valid pod.
    """
    metadata = raw.get("metadata") or {}
    namespace, name = str(metadata.get("namespace") or "default"), str(metadata.get("name") or "")
    try:
        pod = msgspec.convert(raw, Pod)
    except msgspec.ValidationError as error:
        raise BadInputError(f"pod {namespace}/{name}: {error}") from None
    for container in (*pod.spec.containers, *(pod.spec.init_containers or ())):
        for probe in (container.startup_probe, container.readiness_probe, container.liveness_probe):
            if probe is not None:
                _default(probe)
    status = raw.get("status") or {}
    return PodTarget(
        namespace=namespace,
        name=name,
        pod=pod,
        ip=address or str(status.get("podIP") or ""),
        raw=raw,
    )


def probe_plans(
    target: PodTarget,
    profile: KubeletProfile,
    *,
    container: str | None = None,
    probe_types: tuple[str, ...] = (),
) -> list[ProbePlan]:
    """The probes of a pod that a kubelet of this version makes.

    Args:
        container: only its; None for all.
        probe_types: only these; empty for all.

    Raises:
        BadInputError: a probe cannot be read.
        BadQuestionError: no such container, or no such probe.
    """
    probed = list(_probed(target, profile.prober))
    names = [each.name for each, _ in probed]
    if container is not None and container not in names:
        raise BadQuestionError(
            f"pod {target.namespace}/{target.name} has no container {container!r} that is probed",
            advice=f"there are: {', '.join(names)}",
        )
    plans = [
        plan
        for each, raw in probed
        if container in (None, each.name)
        for probe_type in PROBE_TYPES
        if not probe_types or probe_type in probe_types
        if (plan := _plan(target, each, raw, probe_type, profile)) is not None
    ]
    if not plans:
        asked = f"no {' or '.join(probe_types)} probe" if probe_types else "no probe"
        whose = f"container {container!r}" if container else "the pod"
        raise BadQuestionError(f"{whose} has {asked}, so the kubelet makes none")
    return plans


def _probed(target: PodTarget, facts: ProberFacts) -> Iterator[tuple[Container, dict[str, Any]]]:
    """App containers, then sidecars."""
    spec = target.raw.get("spec") or {}
    yield from zip(target.pod.spec.containers, spec.get("containers") or (), strict=True)
    if facts.restartable_init_containers:
        for container, raw in zip(
            target.pod.spec.init_containers or (), spec.get("initContainers") or (), strict=True
        ):
            if container.restart_policy == ALWAYS:
                yield container, raw


def _plan(
    target: PodTarget,
    container: Container,
    raw: dict[str, Any],
    probe_type: ProbeType,
    profile: KubeletProfile,
) -> ProbePlan | None:
    raw_probe = raw.get(f"{probe_type}Probe")
    spec = {
        "startup": container.startup_probe,
        "readiness": container.readiness_probe,
        "liveness": container.liveness_probe,
    }[probe_type]
    if spec is None or raw_probe is None:
        return None
    try:
        handlers = msgspec.convert(raw_probe, ProbeHandler)
        own = msgspec.convert(raw_probe, _Grace).termination_grace_period_seconds
        pods = msgspec.convert(target.raw.get("spec"), _Grace).termination_grace_period_seconds
        ports = msgspec.convert(raw.get("ports") or (), tuple[ContainerPort, ...])
    except msgspec.ValidationError as error:
        where = f"pod {target.namespace}/{target.name}: {container.name}: {probe_type}Probe"
        raise BadInputError(f"{where}: {error}") from None
    graces = (own if profile.lifecycle.probe_grace_period else None, pods, GRACE_PERIOD_S)
    return ProbePlan(
        container=container,
        probe_type=probe_type,
        spec=spec,
        handlers=_with_defaults(handlers),
        handler=handler_of(handlers, profile.prober),
        ports=ports,
        grace_s=next(each for each in graces if each is not None),
    )


def _default(probe: Probe) -> None:
    probe.timeout_seconds = probe.timeout_seconds or PROBE["timeoutSeconds"]
    probe.period_seconds = probe.period_seconds or PROBE["periodSeconds"]
    probe.success_threshold = probe.success_threshold or PROBE["successThreshold"]
    probe.failure_threshold = probe.failure_threshold or PROBE["failureThreshold"]


def _with_defaults(handlers: ProbeHandler) -> ProbeHandler:
    get = handlers.http_get
    if get is None:
        return handlers
    given = {"path": get.path or HTTP_GET["path"], "scheme": get.scheme or HTTP_GET["scheme"]}
    return msgspec.structs.replace(handlers, http_get=msgspec.structs.replace(get, **given))
