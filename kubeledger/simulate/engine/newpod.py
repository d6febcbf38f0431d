"""From a planned pod to the pod as the kubelet gets it."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from kubeledger.kubelet.kube.pod import Pod as ApiPod
from kubeledger.kubelet.kube.pod import containers_of
from kubeledger.kubelet.kube.podqos import pod_qos
from kubeledger.kubelet.kuberuntime.objects import Pod as SyncedPod
from kubeledger.kubelet.prober.objects import Pod as ProbedPod
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.units import NS_PER_S, format_ts, parse_ts
from kubeledger.simulate.engine.plan import PlannedPod
from kubeledger.simulate.engine.world import SimContainer, SimPod

_SOURCE = "kubernetes.io/config.source"
_SIDECAR = "Always"
P = TypeVar("P", ApiPod, SyncedPod)


def sim_pod(planned: PlannedPod, index: int, now_ns: int, profile: KubeletProfile) -> SimPod:
    """The pod that a planned one becomes when it arrives."""
    metadata = planned.manifest["metadata"]
    spec: dict[str, Any] = planned.manifest["spec"]
    created = metadata.get("creationTimestamp") or format_ts(now_ns // NS_PER_S * NS_PER_S)
    document = _document(planned.manifest, planned.source, created)
    api = msgspec.convert(document, ApiPod)
    sidecars = profile.prober.restartable_init_containers
    containers = [
        SimContainer(
            name=c["name"], init=True, sidecar=sidecars and c.get("restartPolicy") == _SIDECAR
        )
        for c in spec.get("initContainers") or ()
    ]
    containers += [SimContainer(name=c["name"]) for c in spec["containers"]]
    return SimPod(
        index=index,
        namespace=document["metadata"]["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        source=planned.source,
        spec=spec,
        labels=document["metadata"]["labels"],
        annotations=document["metadata"]["annotations"],
        api=api,
        probed=msgspec.convert(document, ProbedPod),
        synced=msgspec.convert(document, SyncedPod),
        qos_class=pod_qos(api, status_wins=False, pod_level=profile.admission.pod_level_resources),
        added_ns=now_ns,
        desired=api,
        claims=planned.claims,
        containers=containers,
    )


def change_spec(pod: SimPod, manifest: dict[str, Any]) -> None:
    """Give a pod another spec; what it asks for is not allocated yet."""
    allocated = pod.api
    document = _document(manifest, pod.source, pod.probed.metadata.creation_timestamp)
    pod.spec, pod.generation = manifest["spec"], pod.generation + 1
    pod.desired, pod.synced = (
        msgspec.convert(document, ApiPod),
        msgspec.convert(document, SyncedPod),
    )
    give(pod, allocated)


def give(pod: SimPod, allocated: ApiPod) -> None:
    """Allocate to a pod what another version of it asks for.

    Its status shows what its containers had, until they have that.
    """
    pod.api = _with_resources(pod.desired, allocated)
    pod.synced = _with_resources(pod.synced, allocated)


def _with_resources(pod: P, given: ApiPod) -> P:
    """A pod whose containers have the resources of another version of it."""
    spec = pod.spec
    resources = {c.name: c.resources for c in containers_of(given)}
    lists = {
        name: tuple(
            msgspec.structs.replace(c, resources=resources.get(c.name, c.resources)) for c in each
        )
        for name in ("containers", "init_containers")
        if (each := getattr(spec, name)) is not None
    }
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, **lists))


def _document(manifest: dict[str, Any], source: str, created: str | None) -> dict[str, Any]:
    metadata = manifest["metadata"]
    return {
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata.get("namespace", "default"),
            "uid": metadata["uid"],
            "labels": metadata.get("labels") or {},
            "annotations": {**(metadata.get("annotations") or {}), _SOURCE: source},
            "creationTimestamp": created,
        },
        "spec": manifest["spec"],
    }


def created_ns(pod: SimPod) -> int | None:
    """When the object was made; None for a static pod."""
    created = pod.probed.metadata.creation_timestamp
    return None if created is None or pod.source == "file" else parse_ts(created)
