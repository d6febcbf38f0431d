"""The slice of ResourceClaims that the kubelet reads, and what its library says of them.

Source: v1.36.2 staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/claim.go, by what
    it says in errors
"""

from __future__ import annotations

from typing import Final

import msgspec

from kubeledger.kubelet.kube.pod import Pod, PodResourceClaim


class OwnerReference(msgspec.Struct, frozen=True, gc=False):
    """An owner; the controlling one counts."""

    uid: str | None = ""
    controller: bool | None = False


class ClaimMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Identity and owners."""

    name: str | None = ""
    namespace: str | None = ""
    uid: str | None = ""
    owner_references: tuple[OwnerReference, ...] | None = None


class DeviceRequestAllocationResult(msgspec.Struct, frozen=True, gc=False):
    """A device that was allocated, as far as the kubelet asks: whose it is."""

    driver: str | None = ""


class DeviceAllocationResult(msgspec.Struct, frozen=True, gc=False):
    """All devices that were allocated."""

    results: tuple[DeviceRequestAllocationResult, ...] | None = None


class AllocationResult(msgspec.Struct, frozen=True, gc=False):
    """What the scheduler gave."""

    devices: DeviceAllocationResult = DeviceAllocationResult()


class ConsumerReference(msgspec.Struct, frozen=True, gc=False):
    """Who may use a claim."""

    uid: str | None = ""


class ResourceClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What was allocated, and for whom."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ConsumerReference, ...] | None = None


class ResourceClaim(msgspec.Struct, frozen=True, gc=False):
    """A claim as the API server has it."""

    metadata: ClaimMeta = ClaimMeta()
    status: ResourceClaimStatus = ResourceClaimStatus()


NOT_CREATED: Final = "ResourceClaim not created yet"
"""Of a claim that is yet to be made from its template."""


def claim_name(pod: Pod, claim: PodResourceClaim) -> tuple[str | None, str]:
    """The name of a pod's claim, None where none is needed; and an error, or nothing.

    Source: resourceclaim Name
    """
    if claim.resource_claim_name is not None:
        return claim.resource_claim_name, ""
    meta = pod.metadata
    if claim.resource_claim_template_name is not None:
        for status in (pod.status.resource_claim_statuses if pod.status else None) or ():
            if status.name == claim.name:
                return status.resource_claim_name, ""
        return None, f'pod "{meta.namespace}/{meta.name}": {NOT_CREATED}'
    return None, (
        f'pod "{meta.namespace}/{meta.name}", spec.resourceClaim "{claim.name}": '
        "none of the supported fields are set"
    )


def is_for_pod(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether the claim was made for this pod.

    Source: resourceclaim IsForPod
    """
    meta = claim.metadata
    owner = next((each for each in meta.owner_references or () if each.controller), None)
    return (
        owner is not None
        and owner.uid == pod.metadata.uid
        and meta.namespace == pod.metadata.namespace
    )


def is_reserved_for_pod(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether the pod may use the claim.

    Source: resourceclaim IsReservedForPod
    """
    uid = pod.metadata.uid
    return any(each.uid == uid for each in claim.status.reserved_for or ())
