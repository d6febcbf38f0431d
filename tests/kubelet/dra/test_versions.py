"""What the manager of 1.30 does otherwise than later ones."""

from __future__ import annotations

import pytest

from kubeledger.kubelet.dra.claiminfo import Answer, Device, Result
from kubeledger.kubelet.dra.manager import Manager
from kubeledger.kubelet.kube import resourceclaim as api
from kubeledger.kubelet.kube.maporder import FIRST_ORDER
from kubeledger.kubelet.kube.pod import (
    Container,
    ContainerClaim,
    ObjectMeta,
    Pod,
    PodResourceClaim,
    PodSpec,
    ResourceRequirements,
)
from kubeledger.kubelet.profile.resolve import resolve

DRIVER, KEY = "gpu.example.com", ("ns", "gpus")
CLAIM = api.ResourceClaim(
    api.ClaimMeta(name="gpus", namespace="ns", uid="u"),
    api.ResourceClaimStatus(
        api.AllocationResult(
            api.DeviceAllocationResult((api.DeviceRequestAllocationResult(driver=DRIVER),))
        ),
        (api.ConsumerReference("a"),),
    ),
)
GIVEN = {DRIVER: Answer(results={"u": Result(devices=(Device("pool", "gpu-0"),))})}
FAILED = {DRIVER: Answer(results={"u": Result(error="no")})}


def pod(*, uses: bool) -> Pod:
    """One that names the claim, and perhaps uses it."""
    claims = (ContainerClaim(name="c"),) if uses else None
    container = Container(resources=ResourceRequirements(claims=claims))
    names = (PodResourceClaim(name="c", resource_claim_name="gpus"),)
    meta = ObjectMeta(name="a", namespace="ns", uid="a")
    return Pod(metadata=meta, spec=PodSpec((container,), resource_claims=names))


@pytest.mark.parametrize("version", ["1.30.0", "1.33.0"])
def test_claims_by_version(version: str) -> None:
    """1.30 notes what is prepared, skips what is not used, and never looks for ended pods."""
    profile = resolve(version)
    is_old = version == "1.30.0"

    manager = Manager(profile.dra, [DRIVER])
    assert manager.prepare_resources(pod(uses=False), {KEY: CLAIM}, GIVEN, FIRST_ORDER) == ""
    assert [*manager.cache.claims] == ([] if is_old else [KEY])

    manager = Manager(profile.dra, [DRIVER])
    assert manager.prepare_resources(pod(uses=True), {KEY: CLAIM}, FAILED, FIRST_ORDER)
    assert [*manager.cache.checkpoint] == ([] if is_old else [KEY])
    assert manager.prepare_resources(pod(uses=True), {KEY: CLAIM}, GIVEN, FIRST_ORDER) == ""
    assert manager.cache.prepared == {KEY}
    assert manager.cache.checkpoint[KEY].pod_uids == ("a",)
    manager.reconcile([], GIVEN, FIRST_ORDER)
    assert [*manager.cache.claims] == ([KEY] if is_old else [])
