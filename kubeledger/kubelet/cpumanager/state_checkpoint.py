"""``cpu_manager_state`` read at the start of a kubelet, or refused."""

from __future__ import annotations

from typing import Any, Final

from kubeledger.kubelet.cpumanager.checkpoint import HASHED_AS, V1, V2, V3
from kubeledger.kubelet.cpumanager.state_mem import Assignments, State
from kubeledger.kubelet.kube.containermap import ContainerMap
from kubeledger.kubelet.kube.cpuset import CPUSet, parse
from kubeledger.kubelet.kube.gotexts import quoted
from kubeledger.kubelet.kube.gotypes import Struct, checksum, decode, decoded
from kubeledger.kubelet.kube.maporder import MapOrder
from kubeledger.kubelet.profile.resourcemanagers import ResourceManagerFacts

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
    text: str,
    policy: str,
    containers: ContainerMap,
    facts: ResourceManagerFacts,
    order: MapOrder,
) -> State:
    """What a file holds.

    Args:
        text: of the file.
        policy: name of the configured policy.
        containers: those that the runtime lists, for a file that knows container IDs only.
        facts: of the kubelet's version.
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

    Raises:
        ValueError: it is of none.

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
    """The file as a form, made v2 if it is v1.

    Raises:
        _LoadError: it is not of this form.
        ValueError: it is v1, and names a container that the runtime does not list.
    """
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

    Raises:
        ValueError: naming a container that the runtime does not list.

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
    """The state of a file that could be read.

    Raises:
        ValueError: it is another policy's, or a set of CPUs is none.
    """
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
