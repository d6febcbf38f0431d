"""Whether an API server would take the resizes of a scenario, and its kubelet do something."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import msgspec

from kubeledger.kubelet.kube.critical import SYSTEM_CRITICAL_PRIORITY
from kubeledger.kubelet.kube.pod import SIDECAR, Pod
from kubeledger.kubelet.kube.podqos import pod_qos
from kubeledger.kubelet.kube.quantity import QuantityError
from kubeledger.kubelet.kube.requests import nanos_of
from kubeledger.kubelet.profile.gates import with_gates
from kubeledger.kubelet.profile.resolve import KubeletProfile, resolve
from kubeledger.simulate.scenario.models_pods import Pods, Update
from kubeledger.simulate.scenario.pod_types import PRIORITY_CLASSES
from kubeledger.simulate.scenario.pods import containers_of, with_resources
from kubeledger.simulate.scenario.problems import Fault, Path, suggestion
from kubeledger.simulate.scenario.validate import Groups, Sound


def check_resizes(sound: Sound, groups: Groups, settings: dict[str, Any]) -> Iterator[Fault]:
    """Resizes that cannot be."""
    entries, version = dict(sound.items["pods"]), sound.scenario.kubelet_version
    profile = with_gates(resolve(version), settings.get("featureGates"))
    for index, manifests in groups:
        pods = entries[index]
        changed = [deepcopy(each) for each in manifests if isinstance(each, dict)]
        for number, update in enumerate(pods.updates):
            at: Path = ("pods", index, "updates", number, "resources")
            if not update.resources:
                continue
            if pods.source == "api" and not profile.kuberuntime.resizes_in_place:
                text = f"kubelet {version} resizes no pods in place"
                yield at, text, "choose 1.33 or later, or the gate InPlacePodVerticalScaling"
                break
            for manifest in changed:
                yield from _resize(manifest, pods, update, at, profile)


def _resize(
    manifest: dict[str, Any], pods: Pods, update: Update, at: Path, profile: KubeletProfile
) -> Iterator[Fault]:
    """One resize of one pod, which is changed by it."""
    known = {str(c.get("name")): (c, init) for c, _, init in containers_of(manifest)}
    before = _qos(manifest, profile)
    for name, asked in update.resources.items():
        if name not in known:
            advice = suggestion(name, known, "container")
            yield (*at, name), f"the pod has no container {name!r}", advice
            continue
        container, init = known[name]
        resizable = not init or container.get("restartPolicy") == SIDECAR
        if not (resizable or profile.kuberuntime.init_containers_resized):
            text = f"{name!r} is an init container that ends, which cannot be resized"
            yield (*at, name), text, "resize other containers"
        container["resources"] = with_resources(container, asked)
        yield from _below(container["resources"], (*at, name))
    if pods.source != "api":
        return
    after = _qos(manifest, profile)
    if before is not None and after is not None and before != after:
        text = f"makes a {after} pod of a {before} one, which the API server refuses"
        yield at, text, "keep requests and limits as they are related"
    spec = manifest.get("spec") or {}
    priority = spec.get("priority", PRIORITY_CLASSES.get(spec.get("priorityClassName") or "", 0))
    if isinstance(priority, int) and priority >= SYSTEM_CRITICAL_PRIORITY:
        text = "the pod is critical: whom its resize preempts is not simulated"
        yield at, text, "resize pods of a lower priority"


def _below(resources: dict[str, Any], at: Path) -> Iterator[Fault]:
    """Limits below requests."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for resource in ("cpu", "memory"):
        try:
            below = nanos_of(limits[resource]) < nanos_of(requests[resource])
        except (KeyError, QuantityError):
            continue
        if below:
            advice = "raise the limit, or lower the request"
            yield at, f"the limit of {resource} is below its request", advice


def _qos(manifest: dict[str, Any], profile: KubeletProfile) -> str | None:
    """The QoS class; None for a manifest that is wrong, which is told elsewhere."""
    asked = deepcopy(manifest)
    for container, _, _ in containers_of(asked):
        if isinstance(resources := container.get("resources"), dict) and resources.get("limits"):
            # What is only limited is requested, too.
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    try:
        pod = msgspec.convert({"metadata": {}, "spec": asked.get("spec")}, Pod)
        return pod_qos(pod, status_wins=False, pod_level=profile.admission.pod_level_resources)
    except (msgspec.ValidationError, QuantityError, ValueError):
        return None
