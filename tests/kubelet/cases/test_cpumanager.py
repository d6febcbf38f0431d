"""The CPU manager: version boundaries, traps, what is left to chance, and reasons."""

import json
from typing import Any

import pytest

from kubeledger.model.errors import BadInputError
from tests.kubelet.cases.lines import Lines

LINES = Lines("cpumanager")
NO_BETA = {"CPUManagerPolicyBetaOptions": False}
Step = dict[str, Any]


def pod(uid: str, *containers: tuple[str, str], init: tuple[Any, ...] = (), **spec: Any) -> Any:  # noqa: ANN401  # any JSON value
    """A Guaranteed pod: names and CPUs of its containers."""
    return {
        "metadata": {"uid": uid, "name": uid},
        "spec": {
            "containers": [container(*each) for each in containers],
            "initContainers": [container(*each) for each in init],
            **spec,
        },
    }


def container(name: str, cpu: str, policy: str | None = None) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "1Gi"}
    made = {"name": name, "resources": {"requests": amounts, "limits": amounts}}
    return made | ({"restartPolicy": policy} if policy else {})


def case(*steps: Step, pods: tuple[Any, ...] = (), cpus: int = 8, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """An input: a socket of two threads a core, CPU 0 reserved."""
    by_uid = {each["metadata"]["uid"]: each for each in pods}
    cores = [[core, 0, [2 * core, 2 * core + 1], core // 2] for core in range(cpus // 2)]
    return {
        "topology": {"numSockets": 1, "nodes": [{"id": 0, "cores": cores}]},
        "reservedCPU": "1",
        "reservedSystemCPUs": "0",
        "options": {},
        "topologyPolicy": "none",
        "pods": by_uid,
        "activePods": list(by_uid),
        "sourcesReady": True,
        "initialContainers": [],
        "stateFile": None,
        "featureGates": {},
        "steps": list(steps),
    } | more


def allocate(uid: str, name: str = "c", **more: Any) -> Step:  # noqa: ANN401
    """Without a stored affinity."""
    return {"op": "allocate", "pod": uid, "container": name, "affinity": None,
            "preferred": True} | more  # fmt: skip


def state(default: str, entries: dict[str, Any], checksum: int = 0, **more: Any) -> str:  # noqa: ANN401
    """A state file; checksum 0 is not checked."""
    top = {"policyName": "static", "defaultCpuSet": default, "entries": entries}
    return json.dumps(top | more | {"checksum": checksum})


def outcomes(version: str, of: dict[str, Any], key: str) -> list[Any]:
    """What came of each step, under a key."""
    return [step.get(key) for step in LINES.decided(version, of)["steps"]]


@pytest.mark.parametrize(("version", "cpus"), [("1.28.0", "2-3"), ("1.29.0", "4-5")])
def test_a_sidecar_keeps_its_cpus(version: str, cpus: str) -> None:
    """Before, it was an init container like any."""
    of = pod("u", ("c", "2"), init=(("i", "2", "Always"),))
    assert outcomes(version, case(allocate("u", "i"), allocate("u"), pods=(of,)), "cpus") == [
        "2-3", cpus,
    ]  # fmt: skip


@pytest.mark.parametrize(("version", "default"), [("1.23.0", "0-7"), ("1.24.0", "0-1,4-7")])
def test_released_cpus_that_a_sibling_has(version: str, default: str) -> None:
    """Since 1.24 they do not return to the shared pool."""
    of = case(
        {"op": "addContainer", "pod": "u", "container": "i", "containerID": "1"},
        {"op": "removeContainer", "containerID": "1"},
        pods=(pod("u", ("c", "2"), init=(("i", "2"),)),),
        stateFile=state("0-1,4-7", {"u": {"i": "2-3", "c": "2-3"}}),
    )
    assert outcomes(version, of, "default")[-1] == default


@pytest.mark.parametrize(
    ("version", "held"), [("1.22.0", {}), ("1.22.1", {"u": {"c": "1"}}), ("1.32.0", {})]
)
def test_the_pod_that_is_admitted_is_active(version: str, held: dict[str, Any]) -> None:
    """From 1.22.1 to 1.31, until another one is."""
    of = case(
        allocate("u"), {"op": "removeStaleState"}, pods=(pod("u", ("c", "1")),), activePods=[]
    )
    assert outcomes(version, of, "entries")[-1] == held


@pytest.mark.parametrize(("version", "nodes"), [("1.19.0", []), ("1.20.0", [[0]])])
def test_hints_of_what_init_containers_leave(version: str, nodes: list[list[int]]) -> None:
    """Their CPUs count since 1.20; before, a container that can have them has no hint."""
    of = case(
        allocate("u", "i"),
        {"op": "hints", "pod": "u", "container": "c"},
        pods=(pod("u", ("c", "7"), init=(("i", "7"),)),),
    )
    hints = outcomes(version, of, "hints")[-1]["cpu"]
    assert [each["numaNodes"] for each in hints] == nodes


@pytest.mark.parametrize(("version", "held"), [("1.24.1", {}), ("1.24.2", {"u": {"c": "2-3"}})])
def test_ids_of_containers_that_are_gone(version: str, held: dict[str, Any]) -> None:
    """Forgotten since 1.24.2; before, the end of an old one takes what a new one has."""
    of = case(
        {"op": "removeStaleState", "activePods": []},
        {**allocate("u"), "activePods": ["u"]},
        {"op": "removeContainer", "containerID": "old"},
        pods=(pod("u", ("c", "2")),),
        initialContainers=[["u", "c", "old"]],
    )
    assert outcomes(version, of, "entries")[-1] == held


@pytest.mark.parametrize(
    ("version", "error"),
    [
        ("1.26.0", ""),
        ("1.27.0", "requested 4 cpus not multiple cpus per core = 2"),
        ("1.31.0", "requested 4 cpus not multiple cpus per core = 2"),
        ("1.32.0", "not enough free physical CPUs: available physical CPUs = 0, requested CPUs = 4,"
         " CPUs per core = 2"),
    ],
)  # fmt: skip
def test_a_container_is_refused_its_own_cpus(version: str, error: str) -> None:
    """After a restart of the kubelet, where too few whole cores are free."""
    of = case(
        allocate("u"),
        {"op": "restart"},
        allocate("u"),
        pods=(pod("u", ("c", "4")),),
        cpus=6,
        options={"full-pcpus-only": "true"},
    )
    expected = f"SMT Alignment Error: {error}" if error else ""
    assert outcomes(version, of, "error") == ["", "", expected]
    assert outcomes(version, of, "cpus")[-1] == "2-5"


@pytest.mark.parametrize(
    ("version", "numbers"), [("1.29.0", ""), ("1.30.0", ": requested=8, available=7")]
)
def test_a_shortage(version: str, numbers: str) -> None:
    """With its numbers since 1.30; the pool stays as it was."""
    of = case(allocate("u"), pods=(pod("u", ("c", "8")),))
    text = f"not enough cpus available to satisfy request{numbers}"
    assert outcomes(version, of, "error") == [text]
    assert outcomes(version, of, "default") == ["0-7"]


@pytest.mark.parametrize(
    ("version", "gates", "count"),
    [
        ("1.26.0", {"InPlacePodVerticalScaling": True}, 2),
        ("1.27.0", {"InPlacePodVerticalScaling": True}, 3),
        ("1.32.0", {}, 2),
        ("1.33.0", {}, 3),
        ("1.34.0", {"InPlacePodVerticalScaling": False}, 2),
        ("1.35.0", {}, 2),
    ],
)
def test_allocated_cpus_stand_for_requested_ones(
    version: str, gates: dict[str, bool], count: int
) -> None:
    """Where the kubelet reads the status, be it that it holds none."""
    of = pod("u", ("c", "2"), ("d", "2"))
    of["status"] = {
        "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "3"}}, {"name": "d"}]
    }
    made = case(allocate("u"), allocate("u", "d"), pods=(of,), featureGates=gates)
    entries = outcomes(version, made, "entries")[-1]["u"]
    assert entries == ({"c": "1-3"} if count == 3 else {"c": "2-3", "d": "4-5"})


@pytest.mark.parametrize(
    ("version", "gates", "skipped"),
    [
        ("1.33.0", {"PodLevelResources": True}, False),
        ("1.34.0", {}, True),
        ("1.34.0", {"PodLevelResources": False}, False),
        ("1.36.0", {"PodLevelResources": False}, True),
        ("1.36.0", {"PodLevelResourceManagers": True}, False),
    ],
)
def test_pods_with_resources_of_their_own(
    version: str, gates: dict[str, bool], skipped: bool
) -> None:
    """Passed over since 1.34, but with the gate of 1.36."""
    amounts = {"cpu": "4", "memory": "4Gi"}
    of = pod("u", ("c", "2"), resources={"requests": amounts, "limits": amounts})
    made = case(allocate("u"), pods=(of,), featureGates=gates)
    assert (outcomes(version, made, "entries") == [{}]) is skipped


def test_cpus_of_a_pod_as_a_whole() -> None:
    """Containers have parts of them, or share the rest; they go back with the last one."""
    amounts = {"cpu": "4", "memory": "4Gi"}
    shares = {"name": "s", "resources": {"requests": {"cpu": "1"}}}
    of = pod(
        "u", ("c", "2"), init=(("i", "3"),), resources={"requests": amounts, "limits": amounts}
    )
    of["spec"]["containers"].append(shares)
    made = case(
        {"op": "podHints", "pod": "u"},
        {"op": "allocatePod", "pod": "u", "affinity": [0], "preferred": True},
        {"op": "removeStaleState", "activePods": []},
        pods=(of,),
        featureGates={"PodLevelResourceManagers": True},
    )
    decided = LINES.decided("1.36.2", made)["steps"]
    assert decided[1]["podEntries"] == {"u": "2-5"}
    assert decided[1]["entries"] == {"u": {"i": "2-4", "c": "2-3", "s": "4-5"}}
    assert (decided[2]["podEntries"], decided[2]["default"]) == ({}, "0-7")
    stale = {"stateFile": state("0", {"gone": {"c": "1-7"}}), "steps": made["steps"][1:]}
    assert LINES.decided("1.36.2", made | stale)["steps"][0]["podEntries"] == {"u": "2-5"}
    alone = pod("u", ("c", "4"), resources={"requests": amounts, "limits": amounts})
    alone["spec"]["containers"].append(shares)
    refused = LINES.decided("1.36.2", made | {"pods": {"u": alone}})["steps"]
    assert refused[0]["hints"] == {"cpu": []}
    assert refused[1]["error"] == (
        "pod rejected, sum of exclusive container cpu requests equals pod budget, leaving no cpus "
        "for shared containers"
    )


@pytest.mark.parametrize(
    ("version", "options", "gates", "error"),
    [
        ("1.21.0", {"full-pcpus-only": "true"}, {}, "unsupported cpumanager option"),
        ("1.22.0", {"full-pcpus-only": "true"}, {}, ""),
        ("1.22.0", {"x": "y"}, {}, 'unsupported cpumanager option: "x" (y)'),
        ("1.23.0", {"full-pcpus-only": "true"}, {}, ""),
        ("1.23.0", {"x": "y"}, {}, 'unknown CPU Manager Policy option: "x"'),
        ("1.32.0", {"full-pcpus-only": "true"}, NO_BETA, "Beta-level"),
        ("1.33.0", {"full-pcpus-only": "true"}, NO_BETA, ""),
        ("1.32.0", {"distribute-cpus-across-numa": "true"}, {}, "Alpha-level"),
        ("1.33.0", {"distribute-cpus-across-numa": "true"}, {}, ""),
        ("1.24.0", {"align-by-socket": "true"}, {"CPUManagerPolicyAlphaOptions": True}, "unknown"),
        ("1.25.0", {"align-by-socket": "true"}, {}, "Alpha-level"),
        ("1.30.0", {"distribute-cpus-across-cores": "true"}, {}, "unknown"),
        ("1.36.0", {"distribute-cpus-across-cores": "true"},
         {"CPUManagerPolicyAlphaOptions": True}, ""),
        ("1.31.0", {"strict-cpu-reservation": "true"}, {}, "unknown"),
        ("1.32.0", {"strict-cpu-reservation": "true"}, {}, "Alpha-level"),
        ("1.33.0", {"strict-cpu-reservation": "true"}, {}, ""),
        ("1.33.0", {"prefer-align-cpus-by-uncorecache": "1"}, {}, "Alpha-level"),
        ("1.34.0", {"prefer-align-cpus-by-uncorecache": "1"}, {}, ""),
        ("1.35.0", {"prefer-align-cpus-by-uncorecache": "1"},
         NO_BETA, "Beta-level"),
        ("1.36.0", {"prefer-align-cpus-by-uncorecache": "yes"}, {}, "bad value for option"),
        ("1.36.0", {"full-pcpus-only": "t", "distribute-cpus-across-cores": "t"},
         {"CPUManagerPolicyAlphaOptions": True}, "can not be used at the same time"),
    ],
)  # fmt: skip
def test_options(version: str, options: dict[str, str], gates: dict[str, bool], error: str) -> None:
    said = LINES.decided(version, case(options=options, featureGates=gates))["startError"]
    assert error in said
    assert bool(error) == bool(said)


@pytest.mark.parametrize(
    ("version", "text", "error"),
    [
        ("1.35.0", "", "unexpected end of JSON input"),
        ("1.35.0", "[]", "array into Go value of type state.CPUManagerCheckpoint,"),
        ("1.36.0", "[]", "array into Go value of type state.CPUManagerCheckpointV1,"),
        ("1.35.0", state("0", {"u": {"c": "1-7"}}, 7), "checkpoint is corrupted"),
        ("1.36.0", state("0", {"u": {"c": "1-7"}}, 7), "CheckpointV1.entries of type string"),
        ("1.35.0", state("0", {"id": "1-7"}), "error migrating v1 checkpoint state to v2"),
        ("1.36.0", state("0", {"id": "1-7"}), "failed to migrate checkpoint from v1 to v2"),
        ("1.36.0", state("0", {"u": {"c": "x"}}), 'could not parse cpuset "x" for container "c"'),
        ("1.36.0", state("0", {}, policyName="none"), "differs from state checkpoint policy"),
        ("1.36.0", state("", {"u": {"c": "1"}}), "default cpuset cannot be empty"),
        ("1.36.0", state("0-6", {}), "doesn't match with CPUs in state \"0-6\""),
        ("1.36.0", state("0-7", {"u": {"c": "1"}}), "overlaps with default cpuset"),
        ("1.36.0", state("1-7", {}), 'not all reserved cpus: "0" are present'),
        ("1.36.0", state("0-7", {}), ""),
        ("1.36.0", state("0-7", {}, 1506833380), ""),
        ("1.35.0", state("0-7", {}, 1506833380), "checkpoint is corrupted"),
    ],
)  # fmt: skip
def test_state_files(version: str, text: str, error: str) -> None:
    """Refused in the words of the version, or taken; 1.36 takes a hash with its name of v2, too."""
    outcome = LINES.decided(version, case(stateFile=text))
    assert error in outcome["startError"]
    assert bool(error) == bool(outcome["startError"])
    assert outcome["stateFile"] == text


def test_a_file_by_container_ids_is_migrated() -> None:
    of = case(
        {"op": "removeStaleState", "activePods": []},
        stateFile=state("0-5", {"id": "6-7"}),
        initialContainers=[["u", "c", "id"]],
        pods=(pod("u", ("c", "2")),),
    )
    decided = LINES.decided("1.36.2", of)
    assert decided["entries"] == {"u": {"c": "6-7"}}
    assert decided["steps"][0]["default"] == "0-7"


@pytest.mark.parametrize(("version", "again"), [("1.21.0", [["1", "2-3"]]), ("1.22.0", [])])
def test_the_runtime_is_told_of_changes(version: str, again: list[Any]) -> None:
    """Before 1.22 each time; a container that waits, or whose update fails, is left out."""
    statuses = {"u": {"c": ["running", "1"], "d": ["waiting", "2"], "e": ["running", "3"]}}
    of = case(
        allocate("u"),
        {"op": "reconcile", "statuses": statuses, "updateErrors": ["3"]},
        {"op": "reconcile", "statuses": {"u": {"c": ["running", "1"]}}},
        pods=(pod("u", ("c", "2"), ("d", "1"), ("e", "1")),),
    )
    assert outcomes(version, of, "updates")[1:] == [[["1", "2-3"]], again]


def test_which_fault_is_said_is_left_to_chance() -> None:
    """Of two bad options either; of a container with two IDs either is forgotten."""
    two = case(options={"x": "1", "y": "1"})
    decided = LINES.decided("1.36.2", two)
    other = {**decided, "startError": decided["startError"].replace('"x"', '"y"')}
    assert LINES.judged("1.36.2", two, decided)[0] == "match"
    assert LINES.judged("1.36.2", two, other)[0] == "admissible"
    ids = case(
        {"op": "removeStaleState", "activePods": []},
        {**allocate("u"), "activePods": ["u"]},
        {"op": "removeContainer", "containerID": "1"},
        pods=(pod("u", ("c", "2")),),
        initialContainers=[["u", "c", "1"], ["u", "c", "2"]],
    )
    found = LINES.decided("1.36.2", ids)
    assert found["steps"][-1]["entries"] == {"u": {"c": "2-3"}}
    kept = json.loads(json.dumps(found))
    kept["steps"][-1] |= {"entries": {}, "default": "0-7"}
    kept["stateFile"] = LINES.decided("1.36.2", case())["stateFile"]
    assert LINES.judged("1.36.2", ids, kept)[0] == "admissible"


def test_fewer_cpus_than_cores_crash_the_kubelet() -> None:
    """Which divides by the CPUs of a core: no outcome can be told."""
    of = case(allocate("u"), pods=(pod("u", ("c", "2")),), options={"full-pcpus-only": "true"})
    of["topology"]["numCores"] = 1
    with pytest.raises(BadInputError, match="divides by 0"):
        LINES.decided("1.36.2", of)
