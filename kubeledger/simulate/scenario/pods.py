"""Pods as users write them: what stands where in a manifest, and whether a kubelet can get it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubeledger.simulate.scenario.models_pods import Resources
from kubeledger.simulate.scenario.pod_types import pod_model
from kubeledger.simulate.scenario.problems import Path, Problems
from kubeledger.simulate.scenario.validate import read


def name_of(pod: Any) -> tuple[str, str] | None:  # noqa: ANN401  (what a user wrote)
    """Namespace and name; None while they are wrong."""
    meta = pod.get("metadata") if isinstance(pod, dict) else None
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        return None
    namespace = meta.get("namespace") or "default"
    return (namespace, meta["name"]) if isinstance(namespace, str) else None


def containers_of(pod: Any) -> Iterator[tuple[dict[str, Any], Path, bool]]:  # noqa: ANN401
    """(container, its place in the pod, whether it is an init container) of all that are read."""
    spec = pod.get("spec") if isinstance(pod, dict) else None
    for key in ("initContainers", "containers"):
        given = spec.get(key) if isinstance(spec, dict) else None
        for index, container in enumerate(given if isinstance(given, list) else []):
            if isinstance(container, dict):
                yield container, ("spec", key, index), key == "initContainers"


def probes_of(container: dict[str, Any]) -> set[str]:
    """Types of the probes that a container has."""
    kinds = ("liveness", "readiness", "startup")
    return {kind for kind in kinds if isinstance(container.get(f"{kind}Probe"), dict)}


def with_resources(container: dict[str, Any], asked: Resources) -> dict[str, Any]:
    """A container's resources as an update changes them."""
    before = container.get("resources") or {}
    changes = {"requests": asked.requests, "limits": asked.limits}
    changed = {key: {**(before.get(key) or {}), **amounts} for key, amounts in changes.items()}
    return {**before, **{key: amounts for key, amounts in changed.items() if amounts}}


def check_pod(pod: Any, path: Path, problems: Problems) -> None:  # noqa: ANN401  (what a user wrote)
    """Note all that is wrong with a manifest.

    Args:
        pod: the manifest.
        path: where it stands.
    """
    if not isinstance(pod, dict):
        problems.add(path, "must be a pod", "write `metadata:` and `spec:` below it")
    elif pod.get("kind", "Pod") != "Pod":
        advice = "take the pod out of its template, and use `replicas`"
        problems.add((*path, "kind"), f"is {pod['kind']}, not Pod", advice)
    else:
        read(pod_model(), pod, path, problems)
