"""Actions of a sync against the recorded kubelet; version boundaries; reasons; bad input."""

from typing import Any

import pytest

from tests.kubelet.cases.lines import Lines, container, pod

LINES = Lines("podactions")
SANDBOX = {"id": "sb", "state": "ready", "attempt": 0, "ip": "10.0.0.7", "hostNetwork": False}
ENDED = {**SANDBOX, "state": "notready"}
ONE_CPU = {"cpu": "1"}


def status(name: str, state: str, exit_code: int = 0, **more: object) -> dict[str, Any]:
    """A container that the runtime lists, with its name as its ID."""
    return {"id": f"c://{name}", "name": name, "state": state, "exitCode": exit_code, **more}


def case(
    of: dict[str, Any],
    *listed: dict[str, Any],
    sandbox: dict[str, Any] | None = None,
    **more: object,
) -> dict[str, Any]:
    sandboxes = [SANDBOX if sandbox is None else sandbox]
    lists = {"sandboxes": sandboxes, "containers": list(listed)}
    return {"pod": of, "liveness": {}, "startup": {}, **lists, **more}


def sidecar(name: str) -> dict[str, Any]:
    """An init container that is restarted."""
    return container(name, restartPolicy="Always")


SUCCEEDED = case(pod(container(), restartPolicy="OnFailure"), status("c0", "exited"), sandbox=ENDED)
NEVER_RAN = case(
    pod(container(), restartPolicy="OnFailure"), status("c0", "created"), sandbox=ENDED
)
SIDECAR_DIED = case(
    pod(container(), initContainers=[sidecar("s"), container("i")]),
    status("s", "exited"),
    status("i", "running"),
)
EARLIER_FAILED = case(
    pod(container(), initContainers=[container("i"), container("j")]),
    status("i", "exited", 1),
    status("j", "running"),
)
CREATED = case(pod(container(), initContainers=[sidecar("s")]), status("s", "created"))
ALL_GONE = case(pod(container(), initContainers=[sidecar("s")]), status("c0", "exited", 1))
INIT_GONE = case(pod(container(), initContainers=[container("i")]), status("c0", "running"))
INIT_FAILED = case(
    pod(container(), initContainers=[container("i")], restartPolicy="Never"),
    status("c0", "running"),
    status("i", "exited", 1),
)
RULED = case(
    pod(container(restartPolicy="Never",
                  restartPolicyRules=[{"action": "Restart",
                                       "exitCodes": {"operator": "In", "values": [42]}}]),
        restartPolicy="Never"),
    status("c0", "exited", 42),
)  # fmt: skip
OWN_POLICY = case(pod(container(restartPolicy="Never")), status("c0", "exited", 1))
RESIZED = case(pod(container(limits=ONE_CPU)), status("c0", "running"), actuated={})
STATIC = case(pod(container(limits=ONE_CPU)), status("c0", "running"), actuated={})
STATIC["pod"]["metadata"]["annotations"] = {"kubernetes.io/config.source": "file"}

BOUNDARIES: list[tuple[str, str, dict[str, Any], str, object, object]] = [
    ("1.19.3", "1.19.4", SUCCEEDED, "createSandbox", True, False),
    ("1.19.3", "1.20.0", SUCCEEDED, "createSandbox", True, False),
    ("1.31.9", "1.32.0", NEVER_RAN, "createSandbox", False, True),
    ("1.22.9", "1.23.0", case(pod(container(), ephemeralContainers=[{"name": "debug"}])),
     "ephemeralContainersToStart", [], [0]),
    ("1.22.9", "1.23.0",
     case(pod(container(), initContainers=[container("i")], restartPolicy="Never"),
          status("i", "exited", reason="OOMKilled")), "killPod", False, True),
    ("1.20.15", "1.21.0", case(pod(container()), status("c0", "unknown")),
     "containersToKill.c://c0.reason", "", "Unknown"),
    ("1.20.15", "1.21.0", INIT_GONE, "initContainersToStart", [0], []),
    ("1.20.15", "1.21.0", INIT_FAILED, "killPod", True, False),
    ("1.27.9", "1.28.0", SIDECAR_DIED, "initContainersToStart", [], [0]),
    ("1.28.1", "1.28.2", SIDECAR_DIED, "initContainersToStart", [0], []),
    ("1.28.9", "1.29.0", SIDECAR_DIED, "initContainersToStart", [], [0]),
    ("1.29.8", "1.29.9", EARLIER_FAILED, "initContainersToStart", [], [0]),
    ("1.30.4", "1.30.5", EARLIER_FAILED, "initContainersToStart", [], [0]),
    ("1.31.0", "1.31.1", EARLIER_FAILED, "initContainersToStart", [], [0]),
    ("1.32.9", "1.33.0", EARLIER_FAILED, "initContainersToStart", [0], []),
    ("1.28.1", "1.29.0", ALL_GONE, "containersToStart", [0], []),
    ("1.29.8", "1.29.9", CREATED, "initContainersToStart", [], [0]),
    ("1.30.4", "1.30.5", CREATED, "initContainersToStart", [], [0]),
    ("1.31.0", "1.31.1", CREATED, "initContainersToStart", [], [0]),
    ("1.31.0", "1.32.0", CREATED, "initContainersToStart", [], [0]),
    ("1.31.9", "1.32.0",
     case(pod(container(), initContainers=[sidecar("s")]),
          status("s", "running", hashMatches=False)), "initContainersToStart", [], [0]),
    ("1.34.9", "1.35.0",
     case(pod(container(), initContainers=[container("i", restartPolicy="Never")]),
          status("i", "unknown")), "killPod", False, True),
    ("1.34.9", "1.35.0", OWN_POLICY, "containersToStart", [0], []),
    ("1.34.9", "1.35.0", OWN_POLICY, "killPod", False, True),
    ("1.34.9", "1.35.0", RULED, "killPod", True, False),
    ("1.35.9", "1.36.0", case(pod(container()), status("c0", "running"), restartAllContainers=True),
     "containersToReset", None, ["c://c0"]),
    ("1.32.9", "1.33.0", RESIZED, "containersToUpdate", None, {"cpu": ["c0"]}),
    ("1.35.9", "1.36.0", STATIC, "containersToUpdate", {}, {"cpu": ["c0"]}),
    ("1.35.9", "1.36.0",
     case(pod(container(), initContainers=[container("i", limits=ONE_CPU)]), status("i", "running"),
          actuated={}), "containersToUpdate", {}, {"cpu": ["i"]}),
    ("1.35.9", "1.36.0",
     case(pod(container(), resources={"limits": ONE_CPU}), status("c0", "running"), actuated={}),
     "containersToUpdate", {}, {"cpu": ["c0"]}),
    ("1.35.9", "1.36.0",
     case(pod(container(), resources={"limits": ONE_CPU}), status("c0", "running")),
     "updatePodLevelResources", None, True),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "of", "path", "before", "after"), BOUNDARIES)
def test_a_version_that_differs(
    old: str, new: str, of: dict[str, Any], path: str, before: object, after: object
) -> None:
    """Each fact, on both sides of its change; None where the version does not tell."""
    for version, expected in ((old, before), (new, after)):
        value = LINES.decided(version, of)
        for key in path.split("."):
            value = value.get(key)
        assert value == expected, version


def test_those_who_asked_are_reset_last() -> None:
    """App containers before init containers, and all instances of each."""
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]
    of = pod(
        container("a", restartPolicyRules=rules), container("b"), initContainers=[container("i")]
    )
    listed = [
        status("a", "exited", 1),
        status("i", "exited"),
        {**status("b", "running"), "id": "c://b2"},
        status("b", "exited", 1),
    ]
    outcome = LINES.decided("1.36.2", case(of, *listed, restartAllContainers=True))
    assert outcome["containersToReset"] == ["c://b2", "c://b", "c://i", "c://a"]


TWO = pod(container(), initContainers=[container("i"), container("j")])


@pytest.mark.parametrize("version", ["1.27.0", "1.32.0", "1.36.2"])
@pytest.mark.parametrize(
    ("listed", "inits", "apps", "killed"),
    [
        ([], [0], [], {}),
        ([("i", "created", 0)], [0], [], {}),
        ([("i", "running", 0)], [], [], {}),
        ([("i", "exited", 0)], [1], [], {}),
        ([("i", "exited", 1)], [0], [], {}),
        ([("i", "unknown", 0)], [0], [], {"c://i": "Unknown"}),
        ([("j", "exited", 0)], [], [0], {}),
        ([("j", "exited", 0), ("i", "exited", 0)], [], [0], {}),
    ],
)
def test_init_containers_one_after_the_other(
    version: str,
    listed: list[tuple[str, str, int]],
    inits: list[int],
    apps: list[int],
    killed: dict[str, str],
) -> None:
    """The last that is done, or runs, says where the pod is."""
    outcome = LINES.decided(version, case(TWO, *(status(*each) for each in listed)))
    assert (outcome["initContainersToStart"], outcome["containersToStart"]) == (inits, apps)
    assert {key: kill["reason"] for key, kill in outcome["containersToKill"].items()} == killed


PROBE = {"exec": {"command": ["true"]}}


@pytest.mark.parametrize("version", ["1.29.0", "1.36.2"])
@pytest.mark.parametrize(
    ("probe", "result", "inits", "killed"),
    [
        ("startup", None, [], {}),
        ("startup", "Success", [1], {}),
        ("startup", "Failure", [0], {"c://s": "StartupProbe"}),
        ("liveness", None, [1], {}),
        ("liveness", "Success", [1], {}),
        ("liveness", "Failure", [0, 1], {"c://s": "LivenessProbe"}),
    ],
)
def test_a_running_sidecar_by_its_probes(
    version: str, probe: str, result: str | None, inits: list[int], killed: dict[str, str]
) -> None:
    """The next init container starts once it has started; one that failed is restarted."""
    beside = sidecar("s") | {f"{probe}Probe": PROBE}
    of = pod(container(), initContainers=[beside, container("j")])
    cached = {} if result is None else {"c://s": result}
    outcome = LINES.decided(version, case(of, status("s", "running"), **{probe: cached}))
    assert outcome["initContainersToStart"] == inits
    assert {key: kill["reason"] for key, kill in outcome["containersToKill"].items()} == killed


@pytest.mark.parametrize(
    ("probes", "liveness", "resized"),
    [
        ({}, {}, {"cpu": ["s"]}),
        ({"livenessProbe": PROBE}, {}, {}),
        ({"livenessProbe": PROBE}, {"c://s": "Success"}, {"cpu": ["s"]}),
        ({"startupProbe": PROBE}, {}, {}),
    ],
)
def test_a_sidecar_is_resized_once_it_is_well(
    probes: dict[str, Any], liveness: dict[str, str], resized: dict[str, list[str]]
) -> None:
    """Started, and with a result of its liveness probe if it has one."""
    beside = container("s", limits=ONE_CPU, restartPolicy="Always", **probes)
    of = pod(container(), initContainers=[container("i"), beside])
    listed = [status("s", "running"), status("i", "exited")]
    outcome = LINES.decided("1.36.2", case(of, *listed, actuated={}, liveness=liveness))
    assert outcome["containersToUpdate"] == resized
