"""A pod's probes from its spec and status: who is asked, where, and how."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kubeledger.kubelet.kube.pod import GRACE_PERIOD_S, HTTP_GET, PROBE
from kubeledger.kubelet.kube.statuses import ALWAYS
from kubeledger.kubelet.prober.objects import Container, Pod, Probe
from kubeledger.kubelet.prober.prober import ContainerPort, Handler, ProbeHandler, handler_of
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.bodies.prober import ProbeType
from kubeledger.model.errors import BadInputError, BadQuestionError

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
