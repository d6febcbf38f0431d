"""Whether an API server would take a pod, as far as a simulation reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeGuard

import msgspec

from kubeledger.kubelet.kube.names import (
    is_extended_resource,
    is_pod_level_resource,
    is_qualified_name,
)
from kubeledger.kubelet.kube.pod import Pod as ApiPod
from kubeledger.kubelet.kube.quantity import QuantityError
from kubeledger.kubelet.kube.requests import nanos_of
from kubeledger.kubelet.prober.objects import Pod as ProbedPod
from kubeledger.simulate.scenario.pod_fields import check_fields
from kubeledger.simulate.scenario.problems import Path, Problems, suggestion

__all__ = ["PRIORITY_CLASSES", "check_pod", "containers_of", "name_of", "probes_of"]

PRIORITY_CLASSES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""Those that every cluster has."""

_PROBES = {"livenessProbe": "liveness", "readinessProbe": "readiness", "startupProbe": "startup"}
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_POLICIES = ("Always", "OnFailure", "Never")
_MSGSPEC_PLACE = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_LEAST = {
    "initialDelaySeconds": 0,
    "timeoutSeconds": 1,
    "periodSeconds": 1,
    "successThreshold": 1,
    "failureThreshold": 1,
}


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


def probes_of(container: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Probe type -> probe."""
    return {
        kind: container[key]
        for key, kind in _PROBES.items()
        if isinstance(container.get(key), dict)
    }


def check_pod(pod: Any, path: Path, problems: Problems) -> None:  # noqa: ANN401  (what a user wrote)
    """Note all that is wrong with a pod.

    Args:
        pod: the manifest.
        path: where it stands.
        problems: where to.
    """
    if not isinstance(pod, dict):
        problems.add(path, "must be a pod", "write `metadata:` and `spec:` below it")
        return
    if pod.get("kind", "Pod") != "Pod":
        advice = "take the pod out of its template, and use `replicas`"
        problems.add((*path, "kind"), f"is {pod['kind']}, not Pod", advice)
        return
    if pod.get("apiVersion", "v1") != "v1":
        problems.add((*path, "apiVersion"), "must be v1", "write `apiVersion: v1`")
    check_fields(pod, path, problems)
    _check_metadata(pod, path, problems)
    _check_spec(pod, path, problems)
    if not problems.inside(path):
        _check_types(pod, path, problems)


def _check_metadata(pod: dict[str, Any], path: Path, problems: Problems) -> None:
    names = name_of(pod)
    at = (*path, "metadata")
    if names is None:
        problems.add((*at, "name"), "a pod needs a name", "add `name:` below `metadata:`")
        return
    namespace, name = names
    if _SUBDOMAIN.fullmatch(name) is None:
        advice = "use lower case letters, digits, dashes and dots"
        problems.add((*at, "name"), f"{name!r} is no name of a pod", advice)
    if _LABEL.fullmatch(namespace) is None:
        advice = "use lower case letters, digits and dashes"
        problems.add((*at, "namespace"), f"{namespace!r} is no namespace", advice)


def _check_spec(pod: dict[str, Any], path: Path, problems: Problems) -> None:
    spec, at = pod.get("spec"), (*path, "spec")
    if not isinstance(spec, dict):
        problems.add(at, "a pod needs a spec", "add `spec:` with `containers:`")
        return
    if not isinstance(spec.get("containers"), list) or not spec["containers"]:
        problems.add((*at, "containers"), "a pod needs a container", "add `containers:`")
    policy = spec.get("restartPolicy", "Always")
    if policy not in _POLICIES:
        problems.add(
            (*at, "restartPolicy"), f"{policy!r} is none", suggestion(str(policy), _POLICIES)
        )
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and not _is_count(grace, 0):
        problems.add(
            (*at, "terminationGracePeriodSeconds"),
            f"must be a number of seconds, not {grace!r}",
            "write 0 or more",
        )
    priority_class = spec.get("priorityClassName")
    is_known = isinstance(priority_class, str) and priority_class in PRIORITY_CLASSES
    if priority_class and not is_known and "priority" not in spec:
        problems.add(
            (*at, "priorityClassName"),
            f"the priority of class {priority_class!r} is not known",
            "add its number as `priority:`",
        )
    whole = (*at, "resources")
    _check_resources(spec.get("resources"), whole, problems)
    if not problems.inside(whole):
        for key in ("requests", "limits"):
            for name in (spec.get("resources") or {}).get(key) or ():
                if not is_pod_level_resource(name):
                    text = f"a pod as a whole cannot have {name}"
                    problems.add((*whole, key, name), text, "only cpu, memory and huge pages")
    _check_containers(pod, path, problems)


def _check_containers(pod: dict[str, Any], path: Path, problems: Problems) -> None:
    seen: dict[str, Path] = {}
    for container, place, _ in containers_of(pod):
        at = (*path, *place)
        name = container.get("name")
        if not isinstance(name, str) or _LABEL.fullmatch(name) is None:
            problems.add((*at, "name"), "a container needs a name", "add `name:`, a DNS label")
        elif name in seen:
            advice = f"the container in line {problems.place(seen[name]).line} has it"
            problems.add((*at, "name"), f"the name {name!r} is taken", advice)
        else:
            seen[name] = at
        image = container.get("image")
        if not isinstance(image, str) or not image:
            problems.add((*at, "image"), "a container needs an image", "add `image:`")
        _check_resources(container.get("resources"), (*at, "resources"), problems)
        for key in _PROBES:
            if container.get(key) is not None:
                _check_probe(key, container[key], (*at, key), problems)


def _check_resources(resources: object, at: Path, problems: Problems) -> None:
    if resources is None:
        return
    if not isinstance(resources, dict):
        problems.add(at, "must be a mapping", "write `requests:` and `limits:` below it")
        return
    amounts: dict[str, dict[str, int]] = {"requests": {}, "limits": {}}
    for key, found in amounts.items():
        given = resources.get(key) or {}
        if not isinstance(given, dict):
            problems.add((*at, key), "must be a mapping", "write resources below it")
            continue
        for name, amount in given.items():
            nanos = _amount(name, amount, (*at, key, name), problems)
            if nanos is not None:
                found[name] = nanos
    for name, limit in amounts["limits"].items():
        request = amounts["requests"].get(name, limit)
        if request > limit:
            text = f"asks for more than its limit of {resources['limits'][name]}"
            problems.add((*at, "requests", name), text, "raise the limit, or ask for less")
        elif request != limit and is_extended_resource(name):
            text = "must be equal to its limit: devices cannot be shared"
            problems.add((*at, "requests", name), text, "leave the request out")
    for name in amounts["requests"].keys() - amounts["limits"].keys():
        if is_extended_resource(name):
            problems.add((*at, "requests", name), "needs a limit too", "write it below `limits:`")


def _amount(name: str, amount: object, at: Path, problems: Problems) -> int | None:
    if not is_qualified_name(name):
        problems.add(at, "is no name of a resource", "e.g. cpu, memory, nvidia.com/gpu")
        return None
    try:
        nanos = nanos_of(amount) if _is_amount(amount) else None
    except QuantityError:
        nanos = None
    if nanos is None:
        problems.add(at, f"{amount!r} is no quantity", "write e.g. 250m or 128Mi")
    elif nanos < 0:
        problems.add(at, f"{amount} is less than nothing", "write 0 or more")
    elif nanos % 10**9 and is_extended_resource(name):
        problems.add(at, f"{amount} is no whole number of devices", "write a whole number")
    else:
        return nanos
    return None


def _is_amount(value: object) -> TypeGuard[str | int | float]:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _check_probe(key: str, probe: object, at: Path, problems: Problems) -> None:
    if not isinstance(probe, dict):
        problems.add(at, "must be a probe", "write e.g. `exec: {command: [...]}` below it")
        return
    if (count := sum(probe.get(handler) is not None for handler in _HANDLERS)) != 1:
        what = "has no handler" if not count else "has more than one handler"
        problems.add(at, what, f"give one of {', '.join(_HANDLERS)}")
    for name, least in _LEAST.items():
        value = probe.get(name)
        # 0 stands for the default, as in the API.
        if value is not None and value != 0 and not _is_count(value, least):
            problems.add((*at, name), f"must be a whole number, at least {least}", "fix it")
    if key != "readinessProbe" and probe.get("successThreshold", 1) not in (0, 1):
        problems.add((*at, "successThreshold"), f"must be 1 for a {key}", "leave it out")


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**31


def _check_types(pod: dict[str, Any], path: Path, problems: Problems) -> None:
    """What is left: fields whose types the kubelet's own decoder would refuse."""
    for type_ in (ApiPod, ProbedPod):
        try:
            msgspec.convert(pod, type_)
        except msgspec.ValidationError as error:
            text = str(error)
            match = _MSGSPEC_PLACE.search(text)
            steps = _steps(match["path"]) if match else ()
            message = text[: match.start()] if match else text
            problems.add((*path, *steps), message[:1].lower() + message[1:], "see the pod API")
            return


def _steps(text: str) -> Path:
    found = re.findall(r"\.([^.\[]+)|\[(\d+)\]", text)
    return tuple(int(index) if index else name for name, index in found)
