"""``cpu_manager_state``: a recorded one, all forms, and broken ones."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from kubeledger.kubelet.cpumanager.state_checkpoint import read_cpu_manager_state
from kubeledger.kubelet.kube.containermanager import MalformedCheckpointError
from kubeledger.kubelet.kube.gotypes import fnv1a32

RECORDED = Path(__file__).parents[2] / "data/managers/v1.30.14.cpu_manager_state.json"


def test_a_recorded_state_verifies() -> None:
    """Two containers of one pod have the same CPU: one is an init container."""
    body = read_cpu_manager_state(json.loads(RECORDED.read_text()))
    assert body.checksum_ok is True
    ((_, sets),) = body.assignments.items()
    assert (body.default_cpu_set, sets) == ("0", {"app": "1", "prep": "1"})


CPU_STATE = {"policyName": "none", "defaultCpuSet": "", "checksum": 1353318690}
"""As both kubelets wrote it."""


def test_cpu_state_of_both_kubelets_verifies() -> None:
    """The v2 form without entries."""
    body = read_cpu_manager_state(copy.deepcopy(CPU_STATE))
    assert (body.policy, body.default_cpu_set, body.assignments) == ("none", "", {})
    assert body.checksum_ok is True
    assert read_cpu_manager_state(CPU_STATE | {"policyName": "static"}).checksum_ok is False


def _cpu_checksum(entries: str, tail: str = "") -> int:
    return fnv1a32(
        "(*state.CPUManagerCheckpoint){PolicyName:(string)static DefaultCPUSet:(string)0,4-7 "
        f"Entries:{entries}{tail} Checksum:(checksum.Checksum)0}}"
    )


@pytest.mark.parametrize(
    ("entries", "checksum", "assignments"),
    [
        pytest.param({"u2": {"b": "3", "a": "1-2"}, "u1": {}},
                     _cpu_checksum("(map[string]map[string]string)map[u1:map[] u2:map[a:1-2 b:3]]"),
                     {"u1": {}, "u2": {"a": "1-2", "b": "3"}}, id="v2"),
        pytest.param({"cid": "1-3"}, _cpu_checksum("(map[string]string)map[cid:1-3]"),
                     {"": {"cid": "1-3"}}, id="v1"),
        pytest.param({"u": {"a": "1-3"}},
                     _cpu_checksum("(map[string]map[string]string)map[u:map[a:1-3]]",
                                   " PodEntries:(state.PodCPUAssignments)map[]"),
                     {"u": {"a": "1-3"}}, id="v3 without pods"),
    ],
)  # fmt: skip
def test_cpu_state_forms(
    entries: dict[str, Any], checksum: int, assignments: dict[str, dict[str, str]]
) -> None:
    """Entries by container ID, by pod and container, and with an empty map of pods."""
    state = {"policyName": "static", "defaultCpuSet": "0,4-7", "entries": entries}
    body = read_cpu_manager_state(state | {"checksum": checksum})
    assert body.checksum_ok is True
    assert body.assignments == assignments
    assert read_cpu_manager_state(state | {"checksum": checksum ^ 1}).checksum_ok is False


def test_cpu_state_with_pods() -> None:
    """Hashed as sets, so the text's own notation does not count; 0 is not checked."""
    text = (
        "(*state.CPUManagerCheckpoint){PolicyName:(string)static DefaultCPUSet:(string)0 "
        "Entries:(map[string]map[string]string)map[] PodEntries:(state.PodCPUAssignments)map["
        "u:{CPUSet:(cpuset.CPUSet){elems:(map[int]struct {})map[2:{} 10:{}]}}] "
        "Checksum:(checksum.Checksum)0}"
    )
    state = {"policyName": "static", "defaultCpuSet": "0", "checksum": fnv1a32(text)}
    pods = {"podEntries": {"u": {"cpuSet": "10,2"}}}
    assert read_cpu_manager_state(state | pods).checksum_ok is True
    assert read_cpu_manager_state(state).checksum_ok is False
    assert read_cpu_manager_state(CPU_STATE | {"checksum": 0}).checksum_ok is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policyName": 1}, "policyName is not a string"),
        ({"defaultCpuSet": None}, "defaultCpuSet is not a string"),
        ({"checksum": None}, "the checksum is not an unsigned integer"),
        ({"entries": []}, "entries is not a JSON object"),
        ({"entries": {"u": 3}}, "entries u is not a JSON object"),
        ({"entries": {"u": {"a": 3}}}, "entries u a is not a string"),
        ({"entries": {"u": {"a": "1,"}}}, 'entries u a: strconv.Atoi: parsing "": invalid syntax'),
        ({"entries": {"id": "5-2"}}, 'entries id: invalid range "5-2" (5 > 2)'),
        ({"defaultCpuSet": "0,x"}, 'defaultCpuSet: strconv.Atoi: parsing "x": invalid syntax'),
        ({"podEntries": []}, "podEntries is not a JSON object"),
        ({"podEntries": {"u": 1}}, "podEntries u is not a JSON object"),
        ({"podEntries": {"u": {"cpuSet": 1}}}, "podEntries u is not a string"),
        ({"podEntries": {"u": {"cpuSet": "3-1"}}}, 'podEntries u: invalid range "3-1" (3 > 1)'),
    ],
)
def test_malformed_cpu_state(change: dict[str, Any], message: str) -> None:
    """Parts of another type are refused by name."""
    with pytest.raises(MalformedCheckpointError) as caught:
        read_cpu_manager_state(CPU_STATE | change)
    assert str(caught.value) == message
