"""The kubelet's checkpoint file of devices: what is written when, parsing and checksum.

``kubelet_internal_checkpoint`` holds, since 1.20, a map from NUMA node to device IDs an
entry; up to 1.19 it was a flat list. The checksum covers the lists in the order of the file,
so it is computed on the decoded JSON, while records hold everything sorted.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kubeledger.kubelet.kube.containermanager import (
    MalformedCheckpointError,
    checksum_of,
    object_of,
    optional_list,
    optional_object,
    string_of,
    strings_of,
)
from kubeledger.kubelet.kube.gotypes import byte_list, fnv1a32, plain_list, plain_map, struct, typed
from kubeledger.kubelet.profile.devices import DeviceFacts
from kubeledger.model.bodies.devicemanager import CheckpointEntry, CheckpointRead

if TYPE_CHECKING:
    from kubeledger.kubelet.devicemanager.manager import ManagerImpl


def read_checkpoint(data: object) -> CheckpointRead:
    """The record of a decoded ``kubelet_internal_checkpoint``.

    Raises:
        MalformedCheckpointError: a part is missing or of another type.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/checkpoint/checkpoint.go:31 checkpointData
    Differs: a wrong checksum is recorded instead of refusing the file.
    """
    top = object_of(data, "the checkpoint")
    content = object_of(top.get("Data"), "Data")
    checksum = checksum_of(top.get("Checksum"))
    entries = optional_list(content.get("PodDeviceEntries"), "PodDeviceEntries")
    registered = optional_object(content.get("RegisteredDevices"), "RegisteredDevices")
    records = [_entry(object_of(entry, "an entry")) for entry in entries or ()]
    return CheckpointRead(
        entries=tuple(sorted(records, key=lambda e: (e.pod_uid, e.container, e.resource))),
        registered={
            resource: tuple(sorted(strings_of(ids, resource) or ()))
            for resource, ids in sorted((registered or {}).items())
        },
        checksum=checksum,
        checksum_ok=fnv1a32(_checkpoint_text(entries, registered)) == checksum,
    )


def checkpoint_document(
    entries: Iterable[CheckpointEntry], registered: Mapping[str, tuple[str, ...]]
) -> dict[str, Any]:
    """The JSON of a ``kubelet_internal_checkpoint`` with this content, and its checksum.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/checkpoint/checkpoint.go:31 checkpointData
    Differs: lists are in the order given, where the kubelet's is that of Go maps.
    """
    written = [
        {
            "PodUID": entry.pod_uid,
            "ContainerName": entry.container,
            "ResourceName": entry.resource,
            "DeviceIDs": list(entry.numa[""])
            if "" in entry.numa
            else {node: list(ids) for node, ids in entry.numa.items()},
            "AllocResp": entry.alloc_response_b64,
        }
        for entry in entries
    ] or None
    lists = {resource: list(ids) for resource, ids in registered.items()}
    return {
        "Data": {"PodDeviceEntries": written, "RegisteredDevices": lists},
        "Checksum": fnv1a32(_checkpoint_text(written, lists)),
    }


def checkpoint_content(
    manager: ManagerImpl,
) -> tuple[tuple[CheckpointEntry, ...], dict[str, tuple[str, ...]]]:
    """The entries, and resource -> healthy devices, of ``kubelet_internal_checkpoint``.

    Returns:
        Entries sorted by pod UID, container, resource, without the plugins' answers;
        registered devices with sorted IDs. Both as ``read_checkpoint`` gives them.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go writeCheckpoint
    Differs: sorted, where the kubelet's order is that of Go maps.
    """
    entries = [
        CheckpointEntry(
            pod_uid=pod,
            container=container,
            resource=resource,
            numa={
                str(node) if manager.facts.recorded_per_numa else "": tuple(sorted(ids))
                for node, ids in sorted(record.items())
            },
        )
        for pod in sorted(manager.pod_devices.pods())
        for container in manager.pod_devices.containers(pod)
        for resource, record in sorted(manager.pod_devices.held_by(pod, container).items())
    ]
    registered = {name: tuple(sorted(ids)) for name, ids in sorted(manager.healthy.items())}
    return tuple(entries), registered


def writes_checkpoint(error: str, facts: DeviceFacts, *, plugin_asked: bool) -> bool:
    """Whether an allocation ends with a write: after an error it does not.

    So what was granted before the error is in memory, and on disk only with the next write.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go allocateContainerResources
    """
    return not error and (plugin_asked or not facts.checkpoint_only_after_rpc)


def _entry(entry: dict[str, Any]) -> CheckpointEntry:
    ids = entry.get("DeviceIDs")
    per_node = ids if isinstance(ids, dict) else {"": ids}
    return CheckpointEntry(
        pod_uid=string_of(entry.get("PodUID"), "PodUID"),
        container=string_of(entry.get("ContainerName"), "ContainerName"),
        resource=string_of(entry.get("ResourceName"), "ResourceName"),
        numa={
            node: tuple(sorted(strings_of(per_node[node], "DeviceIDs") or ()))
            for node in sorted(per_node, key=_node_order)
        },
        alloc_response_b64=string_of(entry.get("AllocResp") or "", "AllocResp"),
    )


def _checkpoint_text(entries: list[Any] | None, registered: dict[str, Any] | None) -> str:
    texts = None if entries is None else [_entry_text(entry) for entry in entries]
    lists = (
        None
        if registered is None
        else {
            resource: plain_list(strings_of(ids, resource)) for resource, ids in registered.items()
        }
    )
    fields = {
        "PodDeviceEntries": typed("[]checkpoint.PodDevicesEntry", plain_list(texts)),
        "RegisteredDevices": typed("map[string][]string", plain_map(lists)),
    }
    return typed("checkpoint.checkpointData", struct(fields))


def _entry_text(entry: dict[str, Any]) -> str:
    return struct(
        {
            "PodUID": typed("string", entry["PodUID"]),
            "ContainerName": typed("string", entry["ContainerName"]),
            "ResourceName": typed("string", entry["ResourceName"]),
            "DeviceIDs": _device_ids_text(entry.get("DeviceIDs")),
            "AllocResp": typed("[]uint8", byte_list(_base64(entry.get("AllocResp")))),
        }
    )


def _device_ids_text(ids: object) -> str:
    if isinstance(ids, list):
        return typed("[]string", plain_list(strings_of(ids, "DeviceIDs")))
    nodes = optional_object(ids, "DeviceIDs")
    lists = (
        None
        if nodes is None
        else {_node(node): plain_list(strings_of(names, node)) for node, names in nodes.items()}
    )
    return typed("checkpoint.DevicesPerNUMA", plain_map(lists))


def _node(key: str) -> int:
    try:
        return int(key)
    except ValueError:
        raise MalformedCheckpointError(f"{key!r} is not a NUMA node") from None


def _node_order(key: str) -> int:
    return _node(key) if key else 0


def _base64(value: object) -> bytes | None:
    if value is None:
        return None
    try:
        return base64.b64decode(string_of(value, "AllocResp"), validate=True)
    except binascii.Error as error:
        raise MalformedCheckpointError(f"AllocResp is not base64: {error}") from None
