"""Pod objects as admission gets them, and what they ask for."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from kubeledger.kube.critical import CONFIG_SOURCE
from kubeledger.kube.names import is_extended_resource
from kubeledger.kube.pod import Container, Pod
from kubeledger.kube.quantity import Quantity, QuantityError

__all__ = ["as_admitted", "asks_for_anything", "extended_of", "unlisted"]


def as_admitted(pod: Pod, source: str | None) -> Pod:
    """Requests that only limits are given for are those, and a static pod is marked as one.

    The API server and the kubelet do so before admission; a manifest does not hold it yet.
    """
    spec = pod.spec
    containers = tuple(map(_defaulted, spec.containers or ()))
    inits = tuple(map(_defaulted, spec.init_containers or ()))
    spec = msgspec.structs.replace(
        spec,
        containers=containers,
        init_containers=inits if spec.init_containers is not None else None,
    )
    metadata = pod.metadata
    if source in ("file", "http") and CONFIG_SOURCE not in (metadata.annotations or {}):
        annotations = {**(metadata.annotations or {}), CONFIG_SOURCE: source}
        metadata = msgspec.structs.replace(metadata, annotations=annotations)
    return msgspec.structs.replace(pod, spec=spec, metadata=metadata)


def _defaulted(container: Container) -> Container:
    resources = container.resources
    if resources is None or not resources.limits:
        return container
    requests = {**resources.limits, **(resources.requests or {})}
    if requests == resources.requests:
        return container
    resources = msgspec.structs.replace(resources, requests=requests)
    return msgspec.structs.replace(container, resources=resources)


def asks_for_anything(pod: Pod) -> bool:
    """Whether the pod asks for anything; one that does not fits wherever a pod may be added."""
    spec = pod.spec
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    asked = [c.resources.requests for c in containers if c.resources is not None]
    return any(asked) or bool(spec.overhead) or spec.resources is not None


def extended_of(pod: Pod) -> Iterator[str]:
    """Extended resources that a pod asks for."""
    spec = pod.spec
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        if container.resources is not None:
            yield from filter(is_extended_resource, container.resources.requests or {})


def unlisted(pod: Pod, listed: Collection[str]) -> tuple[str, ...]:
    """Resources that a pod asks some of and that are not listed; no extended ones, sorted."""
    spec = pod.spec
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    parts = [c.resources for c in containers] + [spec.resources]
    tables = [part.requests for part in parts if part is not None]
    return tuple(
        sorted(
            {
                name
                for table in (*tables, spec.overhead)
                for name, amount in (table or {}).items()
                if name not in listed and not is_extended_resource(name) and _is_some(amount)
            }
        )
    )


def _is_some(written: str | float | None) -> bool:
    try:
        return written is not None and Quantity.from_api(written).value() > 0
    except QuantityError:
        return True
