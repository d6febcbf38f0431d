"""``cpu_manager_state``: its forms, and their checksums.

It keeps its entries by container ID (v1), by pod UID and container (v2) and since 1.36
perhaps by pod as well (v3).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubeledger.kubelet.cpumanager.state_mem import State
from kubeledger.kubelet.kube.checkpoints import (
    MalformedCheckpointError,
    checksum_of,
    object_of,
    optional_object,
    string_of,
)
from kubeledger.kubelet.kube.cpuset import CPUSet, cpus_in, parse, text_of
from kubeledger.kubelet.kube.gospew import plain_map
from kubeledger.kubelet.kube.gotypes import CHECKSUM, STRING, GoType, Map, Struct, checksum
from kubeledger.model.bodies.cpumanager import CpuManagerStateRead

HASHED_AS: Final = "state.CPUManagerCheckpoint"
"""What all forms are called where they are hashed: so older kubelets can read them."""

_Fields = dict[str, tuple[str, GoType]]
_HEAD: Final[_Fields] = {
    "PolicyName": ("policyName", STRING),
    "DefaultCPUSet": ("defaultCpuSet", STRING),
}
_TAIL: Final[_Fields] = {"Checksum": ("checksum", CHECKSUM)}
_BY_CONTAINER: Final[_Fields] = {"Entries": ("entries", Map(STRING, Map(STRING, STRING)))}
_CPU_SET: Final = Struct("state.podEntryJSON", {"CPUSet": ("cpuSet", STRING)})


class PodEntry:
    """CPUs of a pod as a whole: ``{"cpuSet": "0-3"}`` in the file, a set in memory.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/state/state.go PodEntry
    """

    is_nilable = False
    zero: CPUSet = 0
    name = "state.PodEntry"

    def read(self, data: Any) -> CPUSet:  # noqa: ANN401  # decoded JSON
        """The set.

        Raises:
            ValueError: it is none.
        """
        return parse(_CPU_SET.read(data)["CPUSet"])

    def text(self, value: CPUSet) -> str:
        """As it is hashed."""
        elements = plain_map(dict.fromkeys(cpus_in(value), "{}"))
        return f"{{CPUSet:(cpuset.CPUSet){{elems:(map[int]struct {{}}){elements}}}}}"


V1: Final = Struct(
    "state.CPUManagerCheckpointV1",
    _HEAD | {"Entries": ("entries", Map(STRING, STRING))} | _TAIL,
    {"Entries": {}},
)
V2: Final = Struct(HASHED_AS, _HEAD | _BY_CONTAINER | _TAIL, {"Entries": {}})
V3: Final = Struct(
    HASHED_AS,
    _HEAD
    | _BY_CONTAINER
    | {"PodEntries": ("podEntries", Map(STRING, PodEntry(), "state.PodCPUAssignments"))}
    | _TAIL,
    {"Entries": {}, "PodEntries": {}},
)


def file_text(policy: str, state: State, *, with_pods: bool) -> str:
    """What the kubelet writes, byte for byte.

    Args:
        policy: its name.
        state: what it holds.
        with_pods: in the form that has entries of pods.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/state/state_checkpoint.go storeState
    """
    entries = {
        pod: {container: text_of(cpus) for container, cpus in sorted(held.items())}
        for pod, held in sorted(state.assignments.items())
    }
    default = text_of(state.default)
    value: dict[str, Any] = {"PolicyName": policy, "DefaultCPUSet": default, "Entries": entries}
    top: dict[str, Any] = {"policyName": policy, "defaultCpuSet": default}
    if entries:
        top["entries"] = entries
    if with_pods:
        value["PodEntries"] = pods = dict(sorted(state.pod_assignments.items()))
        if pods:
            top["podEntries"] = {
                pod: {"cpuSet": text_of(cpus)} if cpus else {} for pod, cpus in pods.items()
            }
    top["checksum"] = checksum(value, V3 if with_pods else V2)
    return msgspec.json.encode(top).decode()


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
    default = _set_text(top.get("defaultCpuSet"), "defaultCpuSet")
    entries = optional_object(top.get("entries"), "entries") or {}
    pods = optional_object(top.get("podEntries"), "podEntries") or {}
    stored = checksum_of(top.get("checksum", 0))
    flat = {
        key: _set_text(value, f"entries {key}")
        for key, value in sorted(entries.items())
        if isinstance(value, str)
    }
    nested = {
        uid: dict(sorted(_sets_by_name(uid, sets).items()))
        for uid, sets in sorted(entries.items())
        if not isinstance(sets, str)
    }
    value = {"PolicyName": policy, "DefaultCPUSet": default, "Entries": flat or nested}
    sets = {"PodEntries": {uid: _pod_entry(uid, entry) for uid, entry in pods.items()}}
    return CpuManagerStateRead(
        policy=policy,
        default_cpu_set=default,
        assignments=({"": flat} if flat else {}) | nested,
        pod_assignments={uid: text_of(cpus) for uid, cpus in sorted(sets["PodEntries"].items())},
        checksum=stored,
        checksum_ok=stored in _checksums(value, sets) if stored else None,
    )


def _checksums(value: dict[str, Any], pods: dict[str, dict[str, CPUSet]]) -> set[int]:
    """What the file may say: v1 without entries is hashed as another type than v2."""
    forms = [V3] if pods["PodEntries"] else [V1, V3]
    found = {checksum(value | pods, form, HASHED_AS) for form in forms if _fits(form, value)}
    return found if pods["PodEntries"] or not _fits(V2, value) else found | {checksum(value, V2)}


def _fits(form: Struct, value: dict[str, Any]) -> bool:
    """Whether the entries are those of a form; none are those of all."""
    is_flat = [isinstance(entry, str) for entry in value["Entries"].values()]
    return all(is_flat) if form is V1 else not any(is_flat)


def _pod_entry(uid: str, entry: object) -> CPUSet:
    where = f"podEntries {uid}"
    return parse(_set_text(object_of(entry, where).get("cpuSet", ""), where))


def _sets_by_name(uid: str, value: object) -> dict[str, str]:
    where = f"entries {uid}"
    return {name: _set_text(v, f"{where} {name}") for name, v in object_of(value, where).items()}


def _set_text(value: object, where: str) -> str:
    """A set of CPUs as written.

    Raises:
        MalformedCheckpointError: it is none.
    """
    text = string_of(value, where)
    try:
        parse(text)
    except ValueError as error:
        raise MalformedCheckpointError(f"{where}: {error}") from None
    return text
