"""The versions of a pod's spec, of which more than one can be in force while it is resized."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kubeledger.kube.pod import Container, Pod, ResourceRequirements
from kubeledger.verify.pods import ListedPod
from kubeledger.verify.rules.cgroups.settings import Rules

__all__ = ["differing_resources", "versions_of"]


def versions_of(
    listed: ListedPod, others: tuple[ListedPod, ...], rules: Rules
) -> Iterator[tuple[ListedPod, Pod]]:
    """The pod's versions whose values can be in force: the one that held then comes first.

    Raises:
        msgspec.ValidationError: an object cannot be read.
    """
    yield listed, listed.as_(Pod)
    if not rules.resizes(listed):
        return
    for other in (listed, *(other for other in others if other is not listed)):
        pod = other.as_(Pod)
        if other is not listed:
            yield other, pod
        given = _given(other, pod)
        if given is not None:
            yield other, given


def differing_resources(first: ListedPod, second: ListedPod) -> tuple[str, str, str] | None:
    """The first container whose resources two versions show differently, and both in JSON."""
    try:
        before, after = first.as_(Pod), second.as_(Pod)
    except msgspec.ValidationError:
        return None
    known = {
        c.name: c for c in (*(before.spec.containers or ()), *(before.spec.init_containers or ()))
    }
    for container in (*(after.spec.containers or ()), *(after.spec.init_containers or ())):
        other = known.get(container.name)
        if other is None:
            continue
        sides = [{"requests": c.requests, "limits": c.limits} for c in (other, container)]
        if sides[0] != sides[1]:
            shown = [msgspec.json.encode(side, order="deterministic").decode() for side in sides]
            return container.name or "", shown[0], shown[1]
    return None


class _Status(msgspec.Struct, rename="camel"):
    name: str = ""
    resources: ResourceRequirements | None = None


class _Statuses(msgspec.Struct, rename="camel"):
    container_statuses: list[_Status] | None = None
    init_container_statuses: list[_Status] | None = None


class _WithStatus(msgspec.Struct):
    status: _Statuses | None = None


def _given(listed: ListedPod, pod: Pod) -> Pod | None:
    """The pod with the resources that the status says its containers have."""
    statuses = listed.as_(_WithStatus).status
    if statuses is None:
        return None
    found = {
        status.name: status.resources
        for status in (
            *(statuses.container_statuses or ()),
            *(statuses.init_container_statuses or ()),
        )
        if status.resources
    }
    if not found:
        return None

    def given(container: Container) -> Container:
        resources = found.get(container.name or "", container.resources)
        return msgspec.structs.replace(container, resources=resources)

    spec = msgspec.structs.replace(
        pod.spec,
        containers=tuple(given(c) for c in pod.spec.containers or ()),
        init_containers=tuple(given(c) for c in pod.spec.init_containers or ()),
    )
    return msgspec.structs.replace(pod, spec=spec)
