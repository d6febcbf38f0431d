"""Pods that ask for resources as a whole, and which of their containers have a share alone."""

from __future__ import annotations

from typing import Final

from kubeledger.kubelet.kube.amounts import NANOS
from kubeledger.kubelet.kube.names import is_pod_level_resource
from kubeledger.kubelet.kube.pod import Container, ResourceRequirements

_EQUAL: Final = ("cpu", "memory")


def is_pod_level(resources: ResourceRequirements | None) -> bool:
    """Whether a pod with these resources asks for something as a whole, or limits it.

    Source: v1.36.2 staging/src/k8s.io/component-helpers/resource/helpers.go
        IsPodLevelResourcesSet
    Differs: no
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
    Differs: no
    """
    requests, limits = container.requests, container.limits
    return all(
        name in requests
        and NANOS[requests[name]] != 0
        and NANOS[requests[name]] == (NANOS[limits[name]] if name in limits else 0)
        for name in _EQUAL
    )
