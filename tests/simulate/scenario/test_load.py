from __future__ import annotations

import json
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.simulate.scenario import ScenarioError, load_scenario, to_plan
from kubeledger.simulate.scenario.document import Document
from kubeledger.simulate.scenario.load import load_data

HEAD = "kubeletVersion: 1.36.2\nduration: 10m\n"
POD = """\
  - pod:
      metadata: {name: web}
      spec:
        containers:
          - name: app
            image: example/app:1
            livenessProbe: {exec: {command: [x]}}
"""


def problems(tmp_path: Path, text: str, *, head: str = HEAD) -> list[tuple[int, str, str]]:
    """(line, path, message) of all that is wrong with a scenario; empty: nothing."""
    file = tmp_path / "scenario.yaml"
    file.write_text(head + text, encoding="utf-8")
    found = []
    try:
        load_scenario(file)
    except ScenarioError as error:
        found = error.problems
    assert all(each.advice for each in found), "each says what to do"
    assert all(each.place.file == str(file) for each in found)
    return [(each.place.line, each.path, each.message) for each in found]


CONTRADICTIONS = {
    "negative memory": ("node: {memory: -1Gi}\n", 3, "node.memory", "must not be negative"),
    "no memory": ("node: {memory: 0}\n", 3, "node.memory", "needs memory"),
    "no CPU": ("node: {cpus: 0}\n", 3, "node.cpus", "at least 1"),
    "a CPU as text": ("node: {cpus: '4'}\n", 3, "node.cpus", "whole number, not '4'"),
    "more used than there is": (
        "node: {disk: {size: 1Gi, used: 2Gi}}\n",
        3,
        "node.disk.used",
        "more than the disk's",
    ),
    "images that do not fit": (
        "node: {disk: {size: 1Gi}}\nimages: [{name: a, size: 2Gi}]\n",
        3,
        "node.disk.size",
        "do not fit",
    ),
    "unknown key": ("noed: {}\n", 3, "noed", "no such key"),
    "unknown nested key": ("node: {cpu: 4}\n", 3, "node.cpu", "no such key"),
    "a key twice": ("seed: 1\nseed: 2\n", 4, "seed", "is there twice"),
    "NUMA node that is not there": (
        "plugins:\n  - resource: a.b/c\n    devices: [{id: x, numa: 1}]\n",
        5,
        "plugins[0].devices[0].numa",
        "which the machine has not",
    ),
    "NUMA nodes, one not there": (
        "plugins:\n  - resource: a.b/c\n    devices: [{id: x, numa: [0, 7]}]\n",
        5,
        "plugins[0].devices[0].numa",
        "NUMA node 7",
    ),
    "a device twice": (
        "plugins:\n  - resource: a.b/c\n    devices: [{id: x}, {id: x}]\n",
        5,
        "plugins[0].devices[1].id",
        "device 'x' is there twice",
    ),
    "a plugin twice": (
        "plugins:\n- {resource: a.b/c, devices: [{id: x}]}\n"
        "- {resource: a.b/c, devices: [{id: x}]}\n",
        5,
        "plugins[1].resource",
        "has a plugin already",
    ),
    "no extended resource": (
        "plugins:\n  - {resource: cpu, devices: [{id: x}]}\n",
        4,
        "plugins[0].resource",
        "no extended resource",
    ),
    "an event of an unknown device": (
        "plugins:\n- resource: a.b/c\n  devices: [{id: x}]\n  events: [{at: 1m, unhealthy: [y]}]\n",
        6,
        "plugins[0].events[0].unhealthy[0]",
        "has no device 'y'",
    ),
    "an event that says two things": (
        "plugins:\n- resource: a.b/c\n  devices: [{id: x}]\n"
        "  events: [{at: 1m, crash: true, register: true}]\n",
        6,
        "plugins[0].events[0]",
        "one thing",
    ),
    "events out of order": (
        "plugins:\n- resource: a.b/c\n  devices: [{id: x}]\n"
        "  events:\n  - {at: 2m, crash: true}\n  - {at: 1m, register: true}\n",
        8,
        "plugins[0].events[1].at",
        "before the one before it",
    ),
    "an image twice": (
        "images: [{name: a}, {name: a}]\n",
        3,
        "images[1].name",
        "is there twice",
    ),
    "an image after the end": (
        "images: [{name: a, at: 11m}]\n",
        3,
        "images[0].at",
        "after the end",
    ),
    "a disk that is not there": (
        "diskChanges: [{disk: image, bytes: 1Gi}]\n",
        3,
        "diskChanges[0].disk",
        "no image disk",
    ),
    "a change of nothing": ("diskChanges: [{at: 1m}]\n", 3, "diskChanges[0]", "changes nothing"),
    "restarts that overlap": (
        "kubeletRestarts: [{at: 1m, down: 5m}, {at: 2m}]\n",
        3,
        "kubeletRestarts[1].at",
        "no kubelet to end",
    ),
    "a restart to an unknown version": (
        "kubeletRestarts: [{at: 1m, kubeletVersion: 1.99.0}]\n",
        3,
        "kubeletRestarts[0].kubeletVersion",
        "unknown kubelet version",
    ),
    "an unknown setting": (
        "config: {maxPodz: 3}\n",
        3,
        "config.maxPodz",
        "no such field of KubeletConfiguration",
    ),
    "a setting out of range": (
        "config: {imageGCHighThresholdPercent: 101}\n",
        3,
        "config.imageGCHighThresholdPercent",
        "between 0 and 100",
    ),
    "settings that exclude each other": (
        "config: {imageGCHighThresholdPercent: 70, imageGCLowThresholdPercent: 80}\n",
        3,
        "config",
        "must be less than",
    ),
    "another kind of configuration": ("config: {kind: Pod}\n", 3, "config.kind", "must be"),
    "two cgroup drivers": (
        "node: {cgroupDriver: systemd}\nconfig: {cgroupDriver: cgroupfs}\n",
        3,
        "node.cgroupDriver",
        "the configuration says cgroupfs",
    ),
    "all is reserved": (
        "node: {cpus: 2}\nconfig: {kubeReserved: {cpu: 2}}\n",
        4,
        "config.kubeReserved",
        "quantity",
    ),
    "all memory is reserved": (
        "node: {memory: 2Gi}\nconfig: {kubeReserved: {memory: 2Gi}}\n",
        4,
        "config.kubeReserved.memory",
        "nothing is left",
    ),
    "cgroups that the version refuses": (
        "node: {cgroupVersion: 1}\n",
        3,
        "node.cgroupVersion",
        "does not start",
    ),
    "a configuration file that is not there": (
        "configFile: none.yaml\n",
        3,
        "configFile",
        "cannot be read",
    ),
    "manifests that are not there": (
        "pods: [{manifests: none.yaml}]\n",
        3,
        "pods[0].manifests",
        "cannot be read",
    ),
    "no pod": ("pods: [{arrives: 1m}]\n", 3, "pods[0]", "has no pod"),
    "a pod twice": (f"pods:\n{POD}{POD}", 12, "pods[1].pod.metadata.name", "default/web is there"),
    "an unknown image": (
        f"images: [{{name: other}}]\npods:\n{POD}",
        10,
        "pods[0].pod.spec.containers[0].image",
        "unknown image",
    ),
    "an image that comes later": (
        f"images: [{{name: 'example/app:1', at: 1m}}]\npods:\n{POD}",
        10,
        "pods[0].pod.spec.containers[0].image",
        "comes at 1m0s",
    ),
    "a script of a missing container": (
        f"pods:\n{POD}    containers: {{ap: {{}}}}\n",
        11,
        "pods[0].containers.ap",
        "no container 'ap'",
    ),
    "a script of a missing probe": (
        f"pods:\n{POD}    containers: {{app: {{probes: {{startup: {{fails: {{}}}}}}}}}}\n",
        11,
        "pods[0].containers.app.probes.startup",
        "has no startup probe",
    ),
    "a probe that says two things": (
        f"pods:\n{POD}    containers: {{app: {{probes: {{liveness: {{fails: {{}}, "
        "flaps: {every: 1s}}}}}\n",
        11,
        "pods[0].containers.app.probes.liveness",
        "has fails and flaps",
    ),
    "failures that overlap": (
        f"pods:\n{POD}    containers: {{app: {{probes: {{liveness: {{fails: "
        "[{from: 1m, for: 2m}, {from: 2m}]}}}}\n",
        11,
        "pods[0].containers.app.probes.liveness.fails[1].from",
        "begins before",
    ),
    "steps out of order": (
        f"pods:\n{POD}    containers: {{app: {{probes: {{liveness: {{steps: "
        "[{from: 1m, result: failure}, {from: 1s, result: success}]}}}}\n",
        11,
        "pods[0].containers.app.probes.liveness.steps[1].from",
        "not after",
    ),
    "usage out of order": (
        f"pods:\n{POD}    containers: {{app: {{usage: [{{from: 2m}}, {{from: 1m}}]}}}}\n",
        11,
        "pods[0].containers.app.usage[1].from",
        "not after",
    ),
    "arrival after the end": (f"pods:\n{POD}    arrives: 1h\n", 11, "pods[0].arrives", "after"),
    "replicas after the end": (
        f"pods:\n{POD}    replicas: 3\n    every: 6m\n",
        12,
        "pods[0].every",
        "after the end",
    ),
    "deleted before it arrives": (
        f"pods:\n{POD}    arrives: 2m\n    deleted: 1m\n",
        12,
        "pods[0].deleted",
        "not after it arrives",
    ),
}


@pytest.mark.parametrize("case", CONTRADICTIONS, ids=lambda case: case.replace(" ", "-"))
def test_a_contradiction_is_told_with_its_line(case: str, tmp_path: Path) -> None:
    """Exactly one problem, at its place."""
    text, line, path, message = CONTRADICTIONS[case]
    found = problems(tmp_path, text)
    assert [(line, path)] == [each[:2] for each in found], found
    assert message in found[0][2]


PODS = {
    "name": ("metadata: {}", "spec: {containers: [{name: a, image: i}]}", "metadata.name"),
    "bad name": (
        "metadata: {name: A_b}",
        "spec: {containers: [{name: a, image: i}]}",
        "metadata.name",
    ),
    "containers": ("metadata: {name: p}", "spec: {}", "spec.containers"),
    "image": ("metadata: {name: p}", "spec: {containers: [{name: a}]}", "spec.containers[0].image"),
    "container twice": (
        "metadata: {name: p}",
        "spec: {containers: [{name: a, image: i}, {name: a, image: i}]}",
        "spec.containers[1].name",
    ),
    "negative request": (
        "metadata: {name: p}",
        "spec: {containers: [{name: a, image: i, resources: {requests: {cpu: -1}}}]}",
        "spec.containers[0].resources.requests.cpu",
    ),
    "no quantity": (
        "metadata: {name: p}",
        "spec: {containers: [{name: a, image: i, resources: {requests: {cpu: much}}}]}",
        "spec.containers[0].resources.requests.cpu",
    ),
    "request over limit": (
        "metadata: {name: p}",
        "spec: {containers: [{name: a, image: i, "
        "resources: {requests: {cpu: 2}, limits: {cpu: 1}}}]}",
        "spec.containers[0].resources.requests.cpu",
    ),
    "half a device": (
        "metadata: {name: p}",
        "spec: {containers: [{name: a, image: i, resources: {limits: {a.b/c: 500m}}}]}",
        "spec.containers[0].resources.limits.a.b/c",
    ),
    "probe without handler": (
        "metadata: {name: p}",
        "spec: {containers: [{name: a, image: i, livenessProbe: {periodSeconds: 1}}]}",
        "spec.containers[0].livenessProbe",
    ),
    "period": (
        "metadata: {name: p}",
        "spec: {containers: [{name: a, image: i, livenessProbe: {exec: {}, periodSeconds: -1}}]}",
        "spec.containers[0].livenessProbe.periodSeconds",
    ),
    "restart policy": (
        "metadata: {name: p}",
        "spec: {restartPolicy: Sometimes, containers: [{name: a, image: i}]}",
        "spec.restartPolicy",
    ),
    "priority class": (
        "metadata: {name: p}",
        "spec: {priorityClassName: mine, containers: [{name: a, image: i}]}",
        "spec.priorityClassName",
    ),
    "misspelt field": (
        "metadata: {name: p}",
        "spec: {containers: [{name: a, image: i, livenessProbe: {exec: {}, periodSecond: 3}}]}",
        "spec.containers[0].livenessProbe.periodSecond",
    ),
    "a type that is read": (
        "metadata: {name: p}",
        "spec: {priority: high, containers: [{name: a, image: i}]}",
        "spec.priority",
    ),
}


def test_a_misspelt_field_gets_the_name_that_was_meant(tmp_path: Path) -> None:
    """Wherever it stands; fields that no simulation reads are fields all the same."""
    pod = """pods:
- pod:
    metadata: {name: p, lables: {a: b}, annotations: {any.thing/here: x}}
    spec:
      terminationGracePeriodSecond: 5
      tolerations: [{key: a, operator: Exists, tolerationSeconds: 3}]
      topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]
      initContainers: [{name: i, image: i, resource: {limits: {cpu: 1}}}]
      containers:
      - {name: a, image: i, volumeMounts: [{name: v, mountPath: /v, readonly: true}]}
      volumes: [{name: v, projected: {sources: []}}, {name: w, csi: {driver: d, whatever: 1}}]
"""
    file = tmp_path / "s.yaml"
    file.write_text(HEAD + pod, encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        load_scenario(file)
    assert [(each.path.removeprefix("pods[0].pod."), each.advice.split(" or ")[0])
            for each in caught.value.problems] == [
        ("metadata.lables", "did you mean labels?"),
        ("spec.terminationGracePeriodSecond", "did you mean terminationGracePeriodSeconds?"),
        ("spec.initContainers[0].resource", "did you mean resources?"),
        ("spec.containers[0].volumeMounts[0].readonly", "did you mean readOnly?"),
    ]  # fmt: skip


@pytest.mark.parametrize("case", PODS, ids=lambda case: case.replace(" ", "-"))
def test_a_pod_that_no_api_server_takes(case: str, tmp_path: Path) -> None:
    """One problem, at its place in the manifest."""
    meta, spec, path = PODS[case]
    found = problems(tmp_path, f"pods:\n- pod:\n    {meta}\n    {spec}\n")
    assert [each[1] for each in found] == [f"pods[0].pod.{path}"], found


def test_all_contradictions_are_told_at_once(tmp_path: Path) -> None:
    """A wrong type hides no contradiction elsewhere."""
    text = (
        "node: {memory: -1, numaNodes: [0, 0]}\n"
        "images: [{name: other, size: x}]\n"
        f"pods:\n{POD}    arrives: 1y\n{POD}    containers: {{b: {{stopsAfter: 1}}}}\n"
    )
    found = problems(tmp_path, text)
    assert {each[1] for each in found} == {
        "images[0].size",
        "node.memory",
        "node.numaNodes[1]",
        "pods[0].arrives",
        "pods[0].pod.spec.containers[0].image",
        "pods[1].containers.b",
        "pods[1].containers.b.stopsAfter",
        "pods[1].pod.metadata.name",
        "pods[1].pod.spec.containers[0].image",
    }
    lines = [each[0] for each in found]
    assert lines == sorted(lines)


def test_a_pod_may_come_again_when_it_is_gone(tmp_path: Path) -> None:
    """As a StatefulSet's: of the same name, with another UID."""
    text = f"pods:\n{POD}    deleted: 1m\n{POD}    arrives: 2m\n"
    assert problems(tmp_path, text) == []


@pytest.mark.parametrize(
    ("head", "path", "message"),
    [
        ("duration: 10m\n", "kubeletVersion", "is missing"),
        ("kubeletVersion: 1.36.2\n", "duration", "is missing"),
        ("kubeletVersion: 1.18.0\nduration: 1m\n", "kubeletVersion", "unknown kubelet version"),
        ("kubeletVersion: 1.37.0\nduration: 1m\n", "kubeletVersion", "unknown kubelet version"),
        ("kubeletVersion: 1.36\nduration: 1m\n", "kubeletVersion", "must be a text, not 1.36"),
        ("kubeletVersion: 1.36.2\nduration: 0s\n", "duration", "longer than 0s"),
        ("[]\n", "", "must be a mapping"),
        ("", "", "must hold one document"),
        ("a: [\n", "", "is not valid YAML"),
        ("a: &a [*a]\n", "", "cannot be read"),
    ],
)
def test_a_file_that_is_no_scenario(head: str, path: str, message: str, tmp_path: Path) -> None:
    """One problem."""
    ((_, where, text),) = problems(tmp_path, "", head=head)
    assert where == path
    assert message in text


def test_json_with_tabs_is_read(tmp_path: Path) -> None:
    """JSON is YAML but for tabs."""
    file = tmp_path / "scenario.json"
    data = {"kubeletVersion": "1.36.2", "duration": "1m", "start": "2026-01-01T00:00:00Z"}
    file.write_text(json.dumps(data, indent="\t"), encoding="utf-8")
    assert load_scenario(file).scenario.duration == 60 * 10**9


def test_manifests_of_several_documents_and_lists(tmp_path: Path) -> None:
    """Files are relative to the scenario; their own lines are told."""
    pod = "{metadata: {name: %s}, spec: {containers: [{name: a, image: i}]}}"
    (tmp_path / "two.yaml").write_text(f"{pod % 'a'}\n---\n{pod % 'b'}\n", encoding="utf-8")
    (tmp_path / "list.yaml").write_text(f"kind: List\nitems:\n- {pod % 'c'}\n", encoding="utf-8")
    (tmp_path / "bad.yaml").write_text("\n\nkind: Deployment\n", encoding="utf-8")
    file = tmp_path / "s.yaml"
    file.write_text(f"{HEAD}pods: [manifests: [two.yaml, list.yaml]]\n", encoding="utf-8")
    (group,) = load_scenario(file).manifests
    assert [manifest.data["metadata"]["name"] for manifest in group] == ["a", "b", "c"]
    file.write_text(f"{HEAD}pods: [manifests: bad.yaml]\n", encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        load_scenario(file)
    (problem,) = caught.value.problems
    assert (problem.place.file, problem.place.line) == (str(tmp_path / "bad.yaml"), 3)
    assert "is Deployment, not Pod" in problem.message


def test_settings_have_the_defaults_of_the_version(tmp_path: Path) -> None:
    """A real configuration as it is, also in a file of its own."""
    (tmp_path / "k.yaml").write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 7\n"
    )
    file = tmp_path / "s.yaml"
    file.write_text(f"{HEAD}configFile: k.yaml\nnode: {{cgroupDriver: systemd}}\n")
    settings = load_scenario(file).settings
    assert settings["maxPods"] == 7
    assert settings["cgroupDriver"] == "systemd"
    assert settings["evictionHard"]["imagefs.inodesFree"] == "5%"
    file.write_text("kubeletVersion: 1.20.2\nduration: 1m\n")
    settings = load_scenario(file).settings
    assert settings["maxPods"] == 110
    assert "imagefs.inodesFree" not in settings["evictionHard"]


SOUND = {
    "kubeletVersion": "1.36.2",
    "duration": "10m",
    "node": {"cpus": 4, "memory": "8Gi", "numaNodes": [0, 1], "disk": {"size": "10Gi"}},
    "config": {"maxPods": 5, "evictionHard": {"memory.available": "5%"}},
    "plugins": [
        {
            "resource": "a.b/c",
            "devices": [{"id": "x", "numa": [0]}, {"id": "y"}],
            "events": [{"at": "1m", "unhealthy": ["x"]}],
        }
    ],
    "images": [{"name": "i", "size": "1Gi", "at": "0s"}],
    "pods": [
        {
            "pod": {
                "metadata": {"name": "p"},
                "spec": {
                    "containers": [
                        {
                            "name": "a",
                            "image": "i",
                            "resources": {"limits": {"cpu": 1, "a.b/c": 1}},
                            "livenessProbe": {"exec": {}, "periodSeconds": 3},
                        }
                    ]
                },
            },
            "containers": {"a": {"probes": {"liveness": {"fails": [{"from": "1m"}]}}}},
        }
    ],
    "diskChanges": [{"at": "1m", "perHour": "1Gi"}],
    "kubeletRestarts": [{"at": "2m"}],
}
ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    3,
    1.5,
    10**30,
    "",
    "x",
    "1m",
    "-5",
    "1Gi",
    [],
    {},
    [None],
    {"x": 1},
    [[]],
]


def places(data: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Of all values below."""
    found = [path] if path else []
    if isinstance(data, dict):
        return found + [at for key in data for at in places(data[key], (*path, key))]
    if isinstance(data, list):
        return found + [at for n, each in enumerate(data) for at in places(each, (*path, n))]
    return found


@given(st.lists(st.tuples(st.sampled_from(places(SOUND)), st.sampled_from(ODD)), max_size=3))
def test_whatever_is_wrong_is_told(changes: list[tuple[tuple[str | int, ...], object]]) -> None:
    """A value of any type in any place: the scenario is taken, or its problems are told."""
    data: Any = deepcopy(SOUND)
    for path, value in changes:
        holder = data
        with suppress(KeyError, IndexError, TypeError):
            for step in path[:-1]:
                holder = holder[step]
            holder[path[-1]] = deepcopy(value)
    with suppress(ScenarioError):
        to_plan(load_data(Document(file="x", data=data), Path("/nowhere")))
