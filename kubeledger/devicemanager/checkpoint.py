"""The kubelet's checkpoint files of devices and CPUs: parsing and checksums.

``kubelet_internal_checkpoint`` holds, since 1.20, a map from NUMA node to device IDs an
entry; up to 1.19 it was a flat list. ``cpu_manager_state`` keeps its entries by container
ID (v1), by pod UID and container (v2) and since 1.36 perhaps by pod as well (v3). A
checksum covers the lists in the order of the file, so it is computed on the decoded JSON,
while records hold everything sorted.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from kubeledger.devicemanager.records import (
    CheckpointEntry,
    CheckpointRead,
    CpuManagerStateRead,
)
from kubeledger.kube.gospew import byte_list, fnv1a32, plain_list, plain_map, struct, typed

__all__ = [
    "MalformedCheckpointError",
    "checkpoint_document",
    "read_checkpoint",
    "read_cpu_manager_state",
]


class MalformedCheckpointError(ValueError):
    """The decoded JSON is no checkpoint of a form that any kubelet wrote."""


def read_checkpoint(data: object) -> CheckpointRead:
    """The record of a decoded ``kubelet_internal_checkpoint``.

    Raises:
        MalformedCheckpointError: a part is missing or of another type.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/checkpoint/checkpoint.go:31 checkpointData
    Differs: a wrong checksum is told in the record instead of refusing the file.
    """
    top = _object(data, "the checkpoint")
    content = _object(top.get("Data"), "Data")
    checksum = _checksum(top.get("Checksum"))
    entries = _optional_list(content.get("PodDeviceEntries"), "PodDeviceEntries")
    registered = _optional_object(content.get("RegisteredDevices"), "RegisteredDevices")
    records = [_entry(_object(entry, "an entry")) for entry in entries or ()]
    return CheckpointRead(
        entries=tuple(sorted(records, key=lambda e: (e.pod_uid, e.container, e.resource))),
        registered={
            resource: tuple(sorted(_strings(ids, resource) or ()))
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


def read_cpu_manager_state(data: object) -> CpuManagerStateRead:
    """The record of a decoded ``cpu_manager_state``.

    Entries of the v1 form are keyed by container ID alone: they stand under the pod UID ``""``.
    A checksum of 0 is one that the kubelet does not check.

    Raises:
        MalformedCheckpointError: a part is missing or of another type.

    Source: v1.20.2 pkg/kubelet/cm/cpumanager/state/checkpoint.go:36 CPUManagerCheckpoint
    Differs: a wrong checksum is told in the record instead of refusing the file.
    """
    top = _object(data, "the state")
    policy = _string(top.get("policyName"), "policyName")
    default = _string(top.get("defaultCpuSet"), "defaultCpuSet")
    entries = _optional_object(top.get("entries"), "entries") or {}
    pods = _optional_object(top.get("podEntries"), "podEntries")
    checksum = _checksum(top.get("checksum", 0))
    texts = _cpu_state_texts(policy, default, entries, pods)
    fits = None if pods else checksum in {fnv1a32(text) for text in texts}
    return CpuManagerStateRead(
        policy=policy,
        default_cpu_set=default,
        assignments=_assignments(entries),
        checksum=checksum,
        checksum_ok=fits if checksum else None,
    )


def _entry(entry: dict[str, Any]) -> CheckpointEntry:
    ids = entry.get("DeviceIDs")
    per_node = ids if isinstance(ids, dict) else {"": ids}
    return CheckpointEntry(
        pod_uid=_string(entry.get("PodUID"), "PodUID"),
        container=_string(entry.get("ContainerName"), "ContainerName"),
        resource=_string(entry.get("ResourceName"), "ResourceName"),
        numa={
            node: tuple(sorted(_strings(per_node[node], "DeviceIDs") or ()))
            for node in sorted(per_node, key=_node_order)
        },
        alloc_response_b64=_string(entry.get("AllocResp") or "", "AllocResp"),
    )


def _checkpoint_text(entries: list[Any] | None, registered: dict[str, Any] | None) -> str:
    texts = None if entries is None else [_entry_text(entry) for entry in entries]
    lists = (
        None
        if registered is None
        else {resource: plain_list(_strings(ids, resource)) for resource, ids in registered.items()}
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
        return typed("[]string", plain_list(_strings(ids, "DeviceIDs")))
    nodes = _optional_object(ids, "DeviceIDs")
    lists = (
        None
        if nodes is None
        else {_node(node): plain_list(_strings(names, node)) for node, names in nodes.items()}
    )
    return typed("checkpoint.DevicesPerNUMA", plain_map(lists))


def _cpu_state_texts(
    policy: str, default: str, entries: dict[str, Any], pods: dict[str, Any] | None
) -> list[str]:
    """What may have been hashed: the v2 form (v1 is it with flat entries), and v3 without pods."""
    flat = bool(entries) and all(isinstance(value, str) for value in entries.values())
    if flat:
        type_name, value = "map[string]string", plain_map(entries)
    else:
        nested = {uid: plain_map(_strings_by_name(sets)) for uid, sets in entries.items()}
        type_name, value = "map[string]map[string]string", plain_map(nested)
    head = {
        "PolicyName": typed("string", policy),
        "DefaultCPUSet": typed("string", default),
        "Entries": typed(type_name, value),
    }
    tail = {"Checksum": typed("checksum.Checksum", "0")}
    forms = [head | tail]
    if entries == {}:
        forms.append(head | {"Entries": typed("map[string]string", value)} | tail)
    if not flat and not pods:
        forms.append(head | {"PodEntries": typed("state.PodCPUAssignments", plain_map({}))} | tail)
    return [typed("*state.CPUManagerCheckpoint", struct(form)) for form in forms]


def _assignments(entries: dict[str, Any]) -> dict[str, dict[str, str]]:
    flat = {key: value for key, value in sorted(entries.items()) if isinstance(value, str)}
    nested = {
        uid: dict(sorted(_strings_by_name(sets).items()))
        for uid, sets in sorted(entries.items())
        if not isinstance(sets, str)
    }
    return ({"": flat} if flat else {}) | nested


def _strings_by_name(value: object) -> dict[str, str]:
    return {name: _string(text, name) for name, text in _object(value, "entries").items()}


def _node(key: str) -> int:
    try:
        return int(key)
    except ValueError:
        raise MalformedCheckpointError(f"{key!r} is no NUMA node") from None


def _node_order(key: str) -> int:
    return _node(key) if key else 0


def _base64(value: object) -> bytes | None:
    if value is None:
        return None
    try:
        return base64.b64decode(_string(value, "AllocResp"), validate=True)
    except binascii.Error as error:
        raise MalformedCheckpointError(f"AllocResp is not base64: {error}") from None


def _checksum(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        raise MalformedCheckpointError("the checksum is no unsigned integer")
    return value


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MalformedCheckpointError(f"{what} is no JSON object")
    return value


def _optional_object(value: object, what: str) -> dict[str, Any] | None:
    return None if value is None else _object(value, what)


def _optional_list(value: object, what: str) -> list[Any] | None:
    if value is not None and not isinstance(value, list):
        raise MalformedCheckpointError(f"{what} is no list")
    return value


def _strings(value: object, what: str) -> list[str] | None:
    items = _optional_list(value, what)
    return None if items is None else [_string(item, what) for item in items]


def _string(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise MalformedCheckpointError(f"{what} is no string")
    return value
