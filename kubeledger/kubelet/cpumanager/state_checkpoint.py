"""``cpu_manager_state``: its forms, what is held of it, and when a kubelet refuses it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubeledger.kubelet.kube.containermanager import (
    ContainerMap,
    CPUSet,
    MalformedCheckpointError,
    checksum_of,
    cpus_in,
    object_of,
    optional_object,
    parse,
    string_of,
    text_of,
)
from kubeledger.kubelet.kube.gotexts import quoted
from kubeledger.kubelet.kube.gotypes import (
    CHECKSUM,
    STRING,
    GoType,
    Map,
    Struct,
    checksum,
    decode,
    decoded,
    plain_map,
)
from kubeledger.kubelet.kube.maporder import MapOrder
from kubeledger.kubelet.profile.resourcemanagers import ResourceManagerFacts
from kubeledger.model.bodies.resourcemanagers import CpuManagerStateRead

Assignments = dict[str, dict[str, CPUSet]]
"""Pod UID -> container -> its CPUs; a pod may be there without containers."""


class State:
    """The shared pool and all assignments.

    Attributes:
        default: the shared pool.
        pod_assignments: pod UID -> CPUs of the pod as a whole.
        revision: grows with each change, which the kubelet writes to its file.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/state/state_mem.go stateMemory
    """

    __slots__ = ("assignments", "default", "pod_assignments", "revision")

    def __init__(
        self,
        default: CPUSet = 0,
        assignments: Assignments | None = None,
        pod_assignments: dict[str, CPUSet] | None = None,
    ) -> None:
        self.default = default
        self.assignments: Assignments = assignments if assignments is not None else {}
        self.pod_assignments = pod_assignments if pod_assignments is not None else {}
        self.revision = 0

    def get(self, pod: str, container: str) -> CPUSet | None:
        """CPUs that a container has alone; None where it has none."""
        held = self.assignments.get(pod)
        return None if held is None else held.get(container)

    def get_or_default(self, pod: str, container: str) -> CPUSet:
        """CPUs that a container has alone, else the shared pool."""
        cpus = self.get(pod, container)
        return self.default if cpus is None else cpus

    def set_default(self, cpus: CPUSet) -> None:
        """Change the shared pool."""
        self.default = cpus
        self.revision += 1

    def set(self, pod: str, container: str, cpus: CPUSet) -> None:
        """Give a container CPUs alone."""
        self.assignments.setdefault(pod, {})[container] = cpus
        self.revision += 1

    def set_pod(self, pod: str, cpus: CPUSet) -> None:
        """Give a pod CPUs as a whole."""
        self.pod_assignments[pod] = cpus
        self.revision += 1

    def delete(self, pod: str, container: str) -> None:
        """A container has none any more."""
        held = self.assignments.get(pod, {})
        held.pop(container, None)
        if not held:
            self.assignments.pop(pod, None)
        self.revision += 1

    def delete_pod(self, pod: str) -> None:
        """A pod has none as a whole any more."""
        self.pod_assignments.pop(pod, None)
        self.revision += 1

    def siblings(self, pod: str, container: str) -> CPUSet:
        """CPUs of the pod's other containers.

        Source: v1.36.2 pkg/kubelet/cm/cpumanager/policy_static.go getAssignedCPUsOfSiblings
        """
        cpus = 0
        for name, held in self.assignments.get(pod, {}).items():
            if name != container:
                cpus |= held
        return cpus


# ``cpu_manager_state``: its forms, and their checksums.
#
# It keeps its entries by container ID (v1), by pod UID and container (v2) and since 1.36
# perhaps by pod as well (v3).

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
    """A set of CPUs as written."""
    text = string_of(value, where)
    try:
        parse(text)
    except ValueError as error:
        raise MalformedCheckpointError(f"{where}: {error}") from None
    return text


STATE_FILE: Final = "/var/lib/kubelet/cpu_manager_state"
_CORRUPT: Final = "checkpoint is corrupted"
_V2_NAME: Final = "state.CPUManagerCheckpointV2"

Value = dict[str, Any]
"""A form of the file as read: by the names of the Go struct."""


class StateError(ValueError):
    """A state that the kubelet does not start with; the text is the kubelet's."""


class _LoadError(ValueError):
    """The file is not of the form that it was read as."""


def restore_state(
    text: str, policy: str, containers: ContainerMap, facts: ResourceManagerFacts, order: MapOrder
) -> State:
    """What a file holds.

    Args:
        containers: those that the runtime lists, for a file that knows container IDs only.
        order: of maps, which decides what of several faults is said.

    Raises:
        StateError: the file is refused.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/state/state_checkpoint.go NewCheckpointState,
        restoreState
    """
    try:
        value = _load(text, containers, facts, order)
        return _state(value, policy, order)
    except ValueError as error:
        raise StateError(
            f"could not restore state from checkpoint: {error}, please drain this node and delete "
            f"the CPU manager checkpoint file {quoted(STATE_FILE)} before restarting Kubelet"
        ) from None


def _load(
    text: str, containers: ContainerMap, facts: ResourceManagerFacts, order: MapOrder
) -> Value:
    """The file as one of the newest form that it can be read as.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/state/state_checkpoint.go
        loadAndMigrateCheckpointV3, loadAndMigrateCheckpointV2; v1.35.6 restoreState
    """
    newest_first = facts.newest_checkpoint_form_first
    forms = [V2, V1] if newest_first else [V1, V2]
    if facts.pod_level_managers:
        forms.insert(0, V3)
    data = decode(text)
    for form in forms[:-1]:
        try:
            return _get_checkpoint(data, form, containers, facts, order)
        except _LoadError:
            continue
    return _get_checkpoint(data, forms[-1], containers, facts, order)


def _get_checkpoint(
    data: object,
    form: Struct,
    containers: ContainerMap,
    facts: ResourceManagerFacts,
    order: MapOrder,
) -> Value:
    """The file as a form, made v2 if it is v1."""
    try:
        value = decoded(data, form)
    except ValueError as error:
        raise _LoadError(str(error)) from None
    if not _verifies(value, form, facts):
        raise _LoadError(_CORRUPT)
    return _migrated(value, containers, facts, order) if form is V1 else value


def _verifies(value: Value, form: Struct, facts: ResourceManagerFacts) -> bool:
    """Whether the checksum fits.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/state/checkpoint.go VerifyChecksum
    Differs: no. None, or 0, is taken for right but for v3.
    """
    stored = value["Checksum"]
    if form is not V3 and not stored:
        return True
    if stored == checksum(value, form, HASHED_AS):
        return True
    own_name = facts.newest_checkpoint_form_first and not facts.pod_level_managers
    return form is V2 and own_name and stored == checksum(value, form, _V2_NAME)


def _migrated(
    value: Value, containers: ContainerMap, facts: ResourceManagerFacts, order: MapOrder
) -> Value:
    """The file by pod and container.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/state/state_checkpoint.go
        migrateV1CheckpointToV2Checkpoint
    """
    entries = value["Entries"] or {}
    if unknown := [container_id for container_id in entries if container_id not in containers]:
        failed = "error migrating v1 checkpoint state to v2 checkpoint state"
        if facts.newest_checkpoint_form_first:
            failed = "failed to migrate checkpoint from v1 to v2"
        raise ValueError(
            f"{failed}: containerID '{order.of(unknown)[0]}' not found in initial containers list"
        )
    by_ref: dict[tuple[str, str], list[str]] = {}
    for container_id, cpus in entries.items():
        by_ref.setdefault(containers[container_id], []).append(cpus)
    nested: dict[str, dict[str, str]] = {}
    for (pod, container), sets in by_ref.items():
        nested.setdefault(pod, {})[container] = order.of(sets)[0]
    return value | {"Entries": nested}


def _state(value: Value, policy: str, order: MapOrder) -> State:
    """The state of a file that could be read."""
    if value["PolicyName"] != policy:
        raise ValueError(
            f"configured policy {quoted(policy)} differs from state checkpoint policy "
            f"{quoted(value['PolicyName'])}"
        )
    written = value["DefaultCPUSet"]
    try:
        default = parse(written)
    except ValueError as error:
        raise ValueError(f"could not parse default cpu set {quoted(written)}: {error}") from None
    faults: list[str] = []
    assignments: Assignments = {
        pod: _sets(pod, entries or {}, faults) for pod, entries in (value["Entries"] or {}).items()
    }
    if faults:
        raise ValueError(order.of(faults)[0])
    return State(default, assignments, dict(value.get("PodEntries") or {}))


def _sets(pod: str, entries: dict[str, str], faults: list[str]) -> dict[str, CPUSet]:
    sets = {}
    for container, written in entries.items():
        try:
            sets[container] = parse(written)
        except ValueError as error:
            faults.append(
                f"could not parse cpuset {quoted(written)} for container {quoted(container)} in "
                f"pod {quoted(pod)}: {error}"
            )
    return sets
