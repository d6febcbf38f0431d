"""What a pod asks for of one resource, as a whole or all containers together.

Two totals, as in the kubelet: what the scheduler's fit check counts (:func:`scheduled_total`),
and what preemption thinks it frees (:func:`freed_total`). They differ in the overhead, and in
versions before 1.34 in sidecars.

The unit is that of the table given: see :mod:`kubeledger.kubelet.kube.resources`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from kubeledger.kubelet.kube.pod import (
    SIDECAR,
    Container,
    ContainerStatus,
    Pod,
    PodSpec,
    ResourceRequirements,
)
from kubeledger.kubelet.kube.resources import (
    NANOS,
    AmountTable,
    ResourceList,
    is_pod_level_resource,
)

_EQUAL: Final = ("cpu", "memory")


def is_pod_level(resources: ResourceRequirements | None) -> bool:
    """Whether a pod with these resources asks for something as a whole, or limits it.

    Source: v1.36.2 staging/src/k8s.io/component-helpers/resource/helpers.go
        IsPodLevelResourcesSet
    """
    return resources is not None and any(
        is_pod_level_resource(name)
        for amounts in (resources.requests, resources.limits)
        for name in amounts or ()
    )


def is_equivalent_guaranteed(container: Container) -> bool:
    """Whether a container limits CPU and memory to what it requests of them.

    Raises:
        BadInputError: an amount is not a quantity.

    Source: v1.36.2 pkg/kubelet/cm/qos/helpers.go IsContainerEquivalentQOSGuaranteed
    """
    requests, limits = container.requests, container.limits
    return all(
        name in requests
        and NANOS[requests[name]] != 0
        and NANOS[requests[name]] == (NANOS[limits[name]] if name in limits else 0)
        for name in _EQUAL
    )


StagedRequests = tuple[list[ResourceList], list[tuple[ResourceList, bool]]]
"""Requests of app containers; those of init containers in order, and which are sidecars."""

_RESIZE_PENDING: Final = "PodResizePending"
_INFEASIBLE: Final = "Infeasible"


def container_total(spec: PodSpec, resource: str, table: AmountTable, sidecars: bool) -> int:
    """Most that the containers need at once.

    All app containers run together, each init container runs alone before them. A sidecar
    (an init container that is restarted) runs on beside everything that comes after it.

    Args:
        sidecars: whether sidecars are known; otherwise they are init containers like any.

    Source: v1.36.2 staging/src/k8s.io/component-helpers/resource/helpers.go
        AggregateContainerRequests; v1.20.2 pkg/scheduler/framework/types.go calculateResource
    Differs: one resource at a time.
    """
    total = 0
    for container in spec.containers or ():
        resources = container.resources
        if resources is not None and (asked := resources.requests) and resource in asked:
            total += table[asked[resource]]
    inits = spec.init_containers
    if not inits:
        return total
    beside = most = 0
    for container in inits:
        resources = container.resources
        own = 0
        if resources is not None and (asked := resources.requests) and resource in asked:
            own = table[asked[resource]]
        if beside + own > most:
            most = beside + own
        if sidecars and container.restart_policy == SIDECAR:
            total += own
            beside += own
    return total if total > most else most


def staged_requests(init_containers: Iterable[Container]) -> list[tuple[ResourceList, bool]]:
    """What the init containers request that request anything, and whether they are sidecars."""
    return [
        (resources.requests, container.restart_policy == SIDECAR)
        for container in init_containers
        if (resources := container.resources) is not None and resources.requests
    ]


def staged_total(staged: StagedRequests, resource: str, table: AmountTable, sidecars: bool) -> int:
    """The same as :func:`container_total`, of requests that have been picked out before."""
    total = beside = most = 0
    apps, inits = staged
    for asked in apps:
        if resource in asked:
            total += table[asked[resource]]
    for asked, is_sidecar in inits:
        if resource in asked:
            own = table[asked[resource]]
            if beside + own > most:
                most = beside + own
            if sidecars and is_sidecar:
                total += own
                beside += own
    return total if total > most else most


def scheduled_total(
    spec: PodSpec, resource: str, table: AmountTable, sidecars: bool, pod_level: bool
) -> int:
    """What the fit check counts a pod with; the overhead is always added.

    Source: v1.36.2 staging/src/k8s.io/component-helpers/resource/helpers.go PodRequests;
        v1.20.2 pkg/scheduler/framework/types.go calculateResource
    Differs: one resource at a time.
    """
    whole = spec.resources.requests if pod_level and spec.resources is not None else None
    if whole and resource in whole and is_pod_level_resource(resource):
        total = table[whole[resource]]
    else:
        total = container_total(spec, resource, table, sidecars)
    if spec.overhead and resource in spec.overhead:
        total += table[spec.overhead[resource]]
    return total


def freed_total(
    spec: PodSpec, resource: str, table: AmountTable, sidecars: bool, pod_level: bool
) -> int:
    """What killing a pod frees, as preemption counts; the overhead only beside a request.

    Where something is asked for, or limited, for the pod as a whole, its containers' own
    requests are not looked at: of a resource not asked for as a whole it frees nothing.

    Source: v1.36.2 pkg/api/v1/resource/helpers.go GetResourceRequestQuantity
    Differs: pods themselves are not a resource here.
    """
    if pod_level and spec.resources is not None and is_pod_level(spec.resources):
        whole = spec.resources.requests or {}
        known = resource in whole and is_pod_level_resource(resource)
        total = table[whole[resource]] if known else 0
    else:
        total = container_total(spec, resource, table, sidecars)
    if total and spec.overhead and resource in spec.overhead:
        total += table[spec.overhead[resource]]
    return total


def allocated(pod: Pod) -> Pod:
    """The pod with the requests that the kubelet allocated, which admissions see of others.

    A resize that is deferred or infeasible changes the spec, not these.

    Source: v1.35.0 pkg/kubelet/allocation/allocation_manager.go UpdatePodFromAllocation
    Differs: takes them from the status, which the kubelet fills from its checkpoint.
    """
    statuses = () if pod.status is None else pod.status.container_statuses or ()
    given = {each.name: each.allocated_resources for each in statuses if each.allocated_resources}
    if not given:
        return pod
    containers = tuple(_given(each, given) for each in pod.spec.containers or ())
    return msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, containers=containers)
    )


def _given(container: Container, given: Mapping[str | None, ResourceList | None]) -> Container:
    requests, resources = given.get(container.name), container.resources
    if requests is None or resources is None:
        return container
    wanted = {**(resources.requests or {}), **requests}
    return msgspec.structs.replace(
        container, resources=msgspec.structs.replace(resources, requests=wanted)
    )


def resized_spec(pod: Pod, *, pod_level: bool) -> PodSpec:
    """The spec with what a pod holds while it is resized: the most of all that is known of it.

    That is what the spec wants (not if that can never be), what was allocated, and what the
    runtime reports.

    Source: v1.36.2 staging/src/k8s.io/component-helpers/resource/helpers.go
        determineEffectiveRequests
    Differs: gives a spec, so that the totals need not know.
    """
    spec, status = pod.spec, pod.status
    if status is None:
        return spec
    infeasible = any(
        c.type == _RESIZE_PENDING and c.reason == _INFEASIBLE for c in status.conditions or ()
    )
    # A later status of the same name hides an earlier one, as in the kubelet's map.
    all_statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    by_name = {s.name: s for s in all_statuses if s.resources is not None}
    if by_name:
        spec = msgspec.structs.replace(
            spec,
            containers=tuple(_resized(c, by_name, infeasible) for c in spec.containers or ()),
            init_containers=tuple(
                _resized(c, by_name, infeasible) if c.restart_policy == SIDECAR else c
                for c in spec.init_containers or ()
            ),
        )
    if pod_level and status.resources is not None and spec.resources is not None:
        wanted = spec.resources.requests or {}
        lists = [status.resources.requests, status.allocated_resources]
        effective = _most(lists if infeasible else [wanted, *lists])
        requests: ResourceList = {name: effective.get(name, "0") for name in wanted}
        resources = msgspec.structs.replace(spec.resources, requests=requests)
        spec = msgspec.structs.replace(spec, resources=resources)
    return spec


def _resized(
    container: Container, by_name: dict[str | None, ContainerStatus], infeasible: bool
) -> Container:
    status = by_name.get(container.name)
    if status is None or status.resources is None:
        return container
    lists = [status.resources.requests, status.allocated_resources]
    if not infeasible and container.resources is not None:
        lists.insert(0, container.resources.requests)
    limits = container.resources.limits if container.resources is not None else None
    return msgspec.structs.replace(
        container, resources=ResourceRequirements(requests=_most(lists), limits=limits)
    )


def _most(lists: Iterable[ResourceList | None]) -> ResourceList:
    most: ResourceList = {}
    for quantities in lists:
        for name, written in (quantities or {}).items():
            if name not in most or NANOS[written] > NANOS[most[name]]:
                most[name] = written
    return most
