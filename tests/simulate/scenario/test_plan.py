from pathlib import Path

import pytest

from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.plan import Plan
from kubeledger.simulate.scenario import load_scenario, to_plan

SCENARIOS = sorted((Path(__file__).parents[3] / "recordings" / "scenarios").glob("*.yaml"))


def plan_of(tmp_path: Path, text: str, seed: int | None = None, node: str | None = None) -> Plan:
    file = tmp_path / "s.yaml"
    file.write_text(f"kubeletVersion: v1.36.2\nduration: 10m\n{text}", encoding="utf-8")
    return to_plan(load_scenario(file), seed=seed, node=node)


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.stem)
def test_the_shipped_scenarios_are_sound(file: Path) -> None:
    assert to_plan(load_scenario(file)) == to_plan(load_scenario(file))


def test_a_pod_has_the_defaults_of_the_api(tmp_path: Path) -> None:
    """Requests from limits, probes, priority, tolerations, what containers have."""
    plan = plan_of(
        tmp_path,
        """
pods:
- arrives: 90s
  pod:
    metadata: {name: p}
    spec:
      priorityClassName: system-node-critical
      containers:
      - name: a
        image: example/a
        resources: {limits: {cpu: 1000m, memory: 1Gi}, requests: {cpu: 0.5}}
        livenessProbe: {httpGet: {port: 80}, periodSeconds: 3}
""",
    )
    (pod,) = plan.pods
    meta, spec = pod.manifest["metadata"], pod.manifest["spec"]
    assert (meta["namespace"], meta["name"]) == ("default", "p")
    assert meta["creationTimestamp"] == "2026-01-01T00:01:30Z"
    assert meta["annotations"]["kubernetes.io/config.source"] == "api"
    assert spec["priority"] == 2_000_001_000
    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["nodeName"] == "node-1"
    (container,) = spec["containers"]
    assert container["resources"] == {
        "limits": {"cpu": "1", "memory": "1Gi"},
        "requests": {"cpu": "500m", "memory": "1Gi"},
    }
    assert container["imagePullPolicy"] == "Always"
    assert container["livenessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "periodSeconds": 3,
        "timeoutSeconds": 1,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


def test_a_static_pod_is_the_nodes(tmp_path: Path) -> None:
    """Its name ends with the node's, its UID is a hash, nothing of an API server is in it."""
    spec = "spec: {containers: [{name: a, image: i}]}"
    text = f"pods: [{{source: file, pod: {{metadata: {{name: s}}, {spec}}}}}]"
    (pod,) = plan_of(tmp_path, text).pods
    meta = pod.manifest["metadata"]
    assert pod.source == "file"
    assert meta["name"] == "s-node-1"
    assert len(meta["uid"]) == 32
    assert meta["annotations"]["kubernetes.io/config.hash"] == meta["uid"]
    assert meta["annotations"]["kubernetes.io/config.source"] == "file"
    assert "creationTimestamp" not in meta
    assert "priority" not in pod.manifest["spec"]
    assert {"operator": "Exists", "effect": "NoExecute"} in pod.manifest["spec"]["tolerations"]


CONTAINER = "{name: a, image: i, livenessProbe: {exec: {}}}"
POD = f"pod: {{metadata: {{name: p}}, spec: {{containers: [{CONTAINER}]}}}}"


def test_replicas_come_one_after_the_other(tmp_path: Path) -> None:
    """Each with a name and a UID of its own; another seed gives other UIDs."""
    text = f"pods: [{{replicas: 3, every: 10s, arrives: 1m, {POD}}}]"
    plan, other = plan_of(tmp_path, text), plan_of(tmp_path, text, seed=5, node="n")
    assert [pod.arrives_ns // NS_PER_S for pod in plan.pods] == [60, 70, 80]
    assert [pod.manifest["metadata"]["name"] for pod in plan.pods] == ["p-0", "p-1", "p-2"]
    uids = {pod.manifest["metadata"]["uid"] for each in (plan, other) for pod in each.pods}
    assert len(uids) == 6
    assert (other.seed, other.node.name) == (5, "n")
    assert {pod.place for pod in plan.pods} == {"pods[0]"}


@pytest.mark.parametrize(
    ("script", "steps"),
    [
        ("fails: {from: 40s, for: 30s}", [(40, "failure"), (70, "success")]),
        ("fails: {from: 40s}", [(40, "failure")]),
        ("fails: [{for: 1s}, {from: 5s}]", [(0, "failure"), (1, "success"), (5, "failure")]),
        ("steps: [{from: 3s, result: unknown}], since: start", [(3, "unknown")]),
        ("flaps: {every: 4m}", [(240, "failure"), (480, "success")]),
        ("fails: {from: 1s}, result: error", [(1, "error")]),
    ],
)
def test_rules_become_steps(script: str, steps: list[tuple[int, str]], tmp_path: Path) -> None:
    probes = f"containers: {{a: {{probes: {{liveness: {{{script}}}}}}}}}"
    (pod,) = plan_of(tmp_path, f"pods: [{{{POD}, {probes}}}]").pods
    found = pod.scripts["a"].probes["liveness"]
    assert [(step.from_ns // NS_PER_S, step.result) for step in found] == steps
    assert {step.since for step in found} == {"start" if "start" in script else "container"}


def test_an_init_container_ends_by_itself(tmp_path: Path) -> None:
    """Otherwise nothing after it would ever run; a sidecar goes on."""
    text = """
pods:
- pod:
    metadata: {name: p}
    spec:
      initContainers:
      - {name: init, image: i}
      - {name: side, image: i, restartPolicy: Always}
      containers: [{name: a, image: i}]
"""
    (pod,) = plan_of(tmp_path, text).pods
    assert set(pod.scripts) == {"init"}
    (step,) = pod.scripts["init"].exits
    assert (step.after_ns, step.code) == (NS_PER_S, 0)


def test_the_world_of_a_plan(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        """
node: {numaNodes: [1, 0], imageDisk: {size: 1.5Gi}, taints: [{key: k, effect: NoSchedule}]}
plugins:
- resource: a.b/c
  registers: 1s
  devices: [{id: x, numa: 1}, {id: y, numa: [1, 0]}, {id: z}]
  events: [{at: 2s, unhealthy: [x]}, {at: 3s, crash: true}, {at: 4s, register: true}]
images: [{name: i, size: 1Gi, at: 5s}]
diskChanges: [{at: 1m, disk: image, bytes: -1Gi, perHour: 2Gi}]
kubeletRestarts: [{at: 1m, down: 5s, kubeletVersion: v1.35.0}]
""",
    )
    assert plan.kubelet_version == "1.36.2"
    assert plan.node.numa_nodes == (0, 1)
    assert plan.node.image_disk_bytes == 1536 << 20
    assert plan.node.taints == ({"key": "k", "value": "", "effect": "NoSchedule"},)
    (plugin,) = plan.plugins
    assert [device.numa for device in plugin.devices] == [(1,), (0, 1), None]
    assert [(step.at_ns // NS_PER_S, step.does) for step in plugin.steps] == [
        (1, "register"),
        (2, "unhealthy"),
        (3, "crash"),
        (4, "register"),
    ]
    (image,) = plan.images
    assert (image.size_bytes, image.at_ns) == (1 << 30, 5 * NS_PER_S)
    assert image.image_id.startswith("sha256:")
    assert len(image.image_id) == 71
    assert [(c.bytes, c.bytes_per_hour) for c in plan.disk_changes] == [(-1 << 30, 0), (0, 2 << 30)]
    assert plan.kubelet_restarts[0].kubelet_version == "1.35.0"


def test_images_that_are_not_named_are_there(tmp_path: Path) -> None:
    (image,) = plan_of(tmp_path, f"pods: [{{replicas: 2, {POD}}}]").images
    assert (image.name, image.size_bytes) == ("i", 100 << 20)


def test_an_image_that_is_loaded_again(tmp_path: Path) -> None:
    """It arrives twice; the runtime fails for as long as the scenario says."""
    plan = plan_of(
        tmp_path,
        """
images: [{name: example/a, again: [5m]}]
runtimeFailures: [{from: 1m, for: 30s}, {from: 9m}]
""",
    )
    assert [(i.name, i.at_ns // NS_PER_S) for i in plan.images] == [
        ("example/a", 0),
        ("example/a", 300),
    ]
    assert plan.images[0].image_id == plan.images[1].image_id
    assert [(a // NS_PER_S, b // NS_PER_S) for a, b in plan.sandbox_failures] == [
        (60, 90),
        (540, 600),
    ]


def test_devices_of_nodes_that_the_machine_has_not(tmp_path: Path) -> None:
    text = "plugins: [{resource: example.com/gpu, anyNuma: true, devices: [{id: a, numa: 3}]}]"
    assert plan_of(tmp_path, text).plugins[0].devices[0].numa == (3,)
