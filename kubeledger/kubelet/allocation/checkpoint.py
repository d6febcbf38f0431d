"""``allocated_pods_state`` and ``actuated_pods_state``: parsing and checksum.

Since 1.32 the content is a text inside of the file, of which the checksum is; before, the entries
stood in the file itself, and only requests. Until 1.32 it is called ``pod_status_manager_state``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from kubeledger.kubelet.allocation.state import PodResourceInfo
from kubeledger.kubelet.kube.checkpoints import (
    MalformedCheckpointError,
    checksum_of,
    object_of,
    optional_object,
    string_of,
)
from kubeledger.kubelet.kube.gospew import fnv1a32, typed
from kubeledger.kubelet.kube.pod import ResourceRequirements
from kubeledger.kubelet.kube.quantity import QuantityError, parse
from kubeledger.kubelet.kube.requests import ResourceList
from kubeledger.model.bodies.allocation import PodResources, PodsStateRead, ResourceAmounts


def read_pods_state(data: object, which: Literal["allocated", "actuated"]) -> PodsStateRead:
    """The record of a decoded file.

    Raises:
        MalformedCheckpointError: a part is missing or of another type.

    Source: v1.36.2 pkg/kubelet/allocation/state/checkpoint.go Checkpoint; v1.32
        pkg/kubelet/status/state/checkpoint.go Checkpoint; v1.30.0 the same,
        PodResourceAllocationCheckpoint
    Differs: a wrong checksum is recorded instead of refusing the file, and the checksum up to
        1.31 is not computed.
    """
    top = object_of(data, "the state")
    checksum = checksum_of(top.get("checksum"))
    if "data" not in top:
        entries = optional_object(top.get("allocationEntries"), "allocationEntries")
        pods = {uid: _requests_alone(pod) for uid, pod in sorted((entries or {}).items())}
        return PodsStateRead(which=which, pods=pods, checksum=checksum, checksum_ok=None)
    text = string_of(top["data"], "data")
    try:
        content = object_of(msgspec.json.decode(text), "data")
    except msgspec.DecodeError as error:
        raise MalformedCheckpointError(f"data is not JSON: {error}") from None
    of_1_32 = optional_object(content.get("allocationEntries"), "allocationEntries")
    entries = optional_object(content.get("entries"), "entries")
    pods = {uid: _pod({"ContainerResources": pod}) for uid, pod in (of_1_32 or {}).items()}
    pods |= {uid: _pod(object_of(pod, "an entry")) for uid, pod in (entries or {}).items()}
    return PodsStateRead(
        which=which,
        pods=dict(sorted(pods.items())),
        checksum=checksum,
        checksum_ok=checksum == fnv1a32(typed("string", text)),
    )


def pods_state_document(
    pods: Mapping[str, PodResourceInfo], *, pod_level: bool
) -> dict[str, object]:
    """The file as a kubelet since 1.33 writes it.

    Args:
        pods: what pods have.
        pod_level: entries hold the pods' own resources.

    Source: v1.36.2 pkg/kubelet/allocation/state/state_checkpoint.go storeState
    """
    entries: dict[str, dict[str, object]] = {}
    for uid, info in sorted(pods.items()):
        containers = {name: _written(each) for name, each in sorted(info.containers.items())}
        entries[uid] = {"ContainerResources": containers}
        if pod_level:
            whole = info.pod_level
            entries[uid]["PodLevelResources"] = None if whole is None else _written(whole)
    text = msgspec.json.encode({"entries": entries}).decode()
    return {"data": text, "checksum": fnv1a32(typed("string", text))}


def _written(resources: ResourceRequirements) -> dict[str, ResourceList]:
    lists = {"limits": resources.limits, "requests": resources.requests}
    return {name: dict(sorted(amounts.items())) for name, amounts in lists.items() if amounts}


def _pod(entry: dict[str, Any]) -> PodResources:
    containers = optional_object(entry.get("ContainerResources"), "ContainerResources") or {}
    whole = optional_object(entry.get("PodLevelResources"), "PodLevelResources")
    return PodResources(
        containers={name: _amounts(each) for name, each in sorted(containers.items())},
        pod_level=None if whole is None else _amounts(whole),
    )


def _requests_alone(containers: object) -> PodResources:
    each = object_of(containers, "an entry").items()
    return PodResources(containers={name: _amounts({"requests": of}) for name, of in sorted(each)})


def _amounts(resources: object) -> ResourceAmounts:
    parts = object_of(resources, "resources")
    requests, limits = (optional_object(parts.get(name), name) for name in ("requests", "limits"))
    return ResourceAmounts(requests=_texts(requests), limits=_texts(limits))


def _texts(amounts: dict[str, Any] | None) -> dict[str, str] | None:
    if amounts is None:
        return None
    return {
        name: _quantity(string_of(amount, name), name) for name, amount in sorted(amounts.items())
    }


def _quantity(text: str, name: str) -> str:
    try:
        parse(text)
    except QuantityError as error:
        raise MalformedCheckpointError(f"{name} is not a quantity: {error}") from None
    return text
