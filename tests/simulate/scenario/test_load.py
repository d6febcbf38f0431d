import json
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.simulate.engine.admission import sim_pod
from kubeledger.simulate.scenario import Problem, ScenarioError, load_scenario, to_plan
from kubeledger.simulate.scenario.load import load_data
from kubeledger.simulate.scenario.validate import Document

REFUSALS = Path(__file__).with_name("refusals.txt")
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


def problems(file: Path, text: str) -> list[Problem]:
    file.write_text(text, encoding="utf-8")
    try:
        load_scenario(file)
    except ScenarioError as error:
        return error.problems
    return []


def answered(block: str, file: Path) -> str:
    """A block of ``refusals.txt`` with what is wrong, a problem a line."""
    title, *lines = block.splitlines()
    text = "".join(f"{line}\n" for line in lines if not line.startswith("> "))
    head = "" if title.startswith("# whole file: ") else HEAD
    found = problems(file, head + text.replace("$POD\n", POD))
    assert all(each.advice for each in found), "each says what to do"
    said = "".join(f"> {each}\n" for each in found)
    return f"{title}\n{text}{said}".replace(f"{file.parent}/", "")


def rewrite() -> None:
    """Write ``refusals.txt`` with what is wrong today."""
    file = Path(mkdtemp()) / "scenario.yaml"
    REFUSALS.write_text("\n".join(answered(block, file) for block in blocks()), encoding="utf-8")


def blocks() -> list[str]:
    return [f"#{part}" for part in f"\n{REFUSALS.read_text()}".split("\n#")[1:]]


@pytest.mark.parametrize("block", blocks(), ids=lambda block: block[2 : block.index("\n")])
def test_what_is_wrong_is_said_with_its_line_and_what_to_do(block: str, tmp_path: Path) -> None:
    """Sentences are those of the file; ``just expected`` rewrites it."""
    assert answered(block, tmp_path / "scenario.yaml").strip() == block.strip()


def test_a_pod_may_come_again_when_it_is_gone(tmp_path: Path) -> None:
    text = f"pods:\n{POD}    deleted: 1m\n{POD}    arrives: 2m\n"
    assert problems(tmp_path / "s.yaml", HEAD + text) == []


def test_json_with_tabs_is_read(tmp_path: Path) -> None:
    file = tmp_path / "scenario.json"
    data = {"kubeletVersion": "1.36.2", "duration": "1m", "start": "2026-01-01T00:00:00Z"}
    file.write_text(json.dumps(data, indent="\t"), encoding="utf-8")
    assert load_scenario(file).scenario.duration == 60 * 10**9


def test_manifests_of_several_documents_and_lists(tmp_path: Path) -> None:
    """Files are relative to the scenario; problems name their own lines."""
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


def test_a_configuration_may_have_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "k.yaml").write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 7\n"
    )
    file = tmp_path / "s.yaml"
    file.write_text(f"{HEAD}configFile: k.yaml\nnode: {{cgroupDriver: systemd}}\n")
    settings = load_scenario(file).settings
    assert (settings["maxPods"], settings["cgroupDriver"]) == (7, "systemd")


SOUND = yaml.safe_load(
    """
kubeletVersion: 1.36.2
duration: 10m
node: {cpus: 4, memory: 8Gi, numaNodes: [0, 1], disk: {size: 10Gi}}
config: {maxPods: 5, evictionHard: {memory.available: 5%}}
plugins:
- resource: a.b/c
  devices: [{id: x, numa: [0]}, {id: y}]
  events: [{at: 1m, unhealthy: [x]}]
images: [{name: i, size: 1Gi, at: 0s}]
pods:
- pod:
    metadata: {name: p}
    spec:
      containers:
      - name: a
        image: i
        resources: {limits: {cpu: 1, a.b/c: 1}}
        livenessProbe: {exec: {}, periodSeconds: 3}
  containers: {a: {probes: {liveness: {fails: [{from: 1m}]}}}}
diskChanges: [{at: 1m, perHour: 1Gi}]
kubeletRestarts: [{at: 2m}]
"""
)
ODD: list[Any] = [None, True, -1, 0, 3, 1.5, 10**30, "", "x", "1m", "-5", "1Gi"]
ODD += [[], {}, [None], {"x": 1}, [[]]]


def places(data: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [path] if path else []
    if isinstance(data, dict):
        return found + [at for key in data for at in places(data[key], (*path, key))]
    if isinstance(data, list):
        return found + [at for n, each in enumerate(data) for at in places(each, (*path, n))]
    return found


@given(st.lists(st.tuples(st.sampled_from(places(SOUND)), st.sampled_from(ODD)), max_size=3))
def test_whatever_is_wrong_is_said(changes: list[tuple[tuple[str | int, ...], object]]) -> None:
    """A value of any type in any place: the engine can read the pods, or the problems are said."""
    data: Any = deepcopy(SOUND)
    for path, value in changes:
        holder = data
        with suppress(KeyError, IndexError, TypeError):
            for step in path[:-1]:
                holder = holder[step]
            holder[path[-1]] = deepcopy(value)
    with suppress(ScenarioError):
        plan = to_plan(load_data(Document(file="x", data=data), Path("/nowhere")))
        for index, pod in enumerate(plan.pods):
            sim_pod(pod, index, 0, resolve(plan.kubelet_version))


if __name__ == "__main__":
    rewrite()
