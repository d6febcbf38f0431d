"""``cpu_manager_state``: parsing and checksum.

It keeps its entries by container ID (v1), by pod UID and container (v2) and since 1.36
perhaps by pod as well (v3).
"""

from __future__ import annotations

from typing import Any

from kubeledger.kubelet.kube.checkpoints import checksum_of, object_of, optional_object, string_of
from kubeledger.kubelet.kube.gospew import fnv1a32, plain_map, struct, typed
from kubeledger.model.bodies.cpumanager import CpuManagerStateRead


def read_cpu_manager_state(data: object) -> CpuManagerStateRead:
    """The record of a decoded ``cpu_manager_state``.

    Entries of the v1 form are keyed by container ID alone: they stand under the pod UID ``""``.
    A checksum of 0 is one that the kubelet does not check.

    Raises:
        MalformedCheckpointError: a part is missing or of another type.

    Source: v1.20.2 pkg/kubelet/cm/cpumanager/state/checkpoint.go:36 CPUManagerCheckpoint
    Differs: a wrong checksum is recorded instead of refusing the file.
    """
    top = object_of(data, "the state")
    policy = string_of(top.get("policyName"), "policyName")
    default = string_of(top.get("defaultCpuSet"), "defaultCpuSet")
    entries = optional_object(top.get("entries"), "entries") or {}
    pods = optional_object(top.get("podEntries"), "podEntries")
    checksum = checksum_of(top.get("checksum", 0))
    texts = _cpu_state_texts(policy, default, entries, pods)
    fits = None if pods else checksum in {fnv1a32(text) for text in texts}
    return CpuManagerStateRead(
        policy=policy,
        default_cpu_set=default,
        assignments=_assignments(entries),
        checksum=checksum,
        checksum_ok=fits if checksum else None,
    )


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
    return {name: string_of(text, name) for name, text in object_of(value, "entries").items()}
