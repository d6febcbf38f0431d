"""What the version decides: settings with their defaults, pod-level resources, static UIDs."""

from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

from kubeledger.model.bodies.node import SettingsObserved
from kubeledger.simulate.engine.plan import Plan
from kubeledger.simulate.engine.sim import Sim
from kubeledger.simulate.scenario import load_scenario, to_plan
from kubeledger.simulate.scenario.defaults import static_uid
from tests.recordings import import_recording


def plan_of(tmp_path: Path, version: str, text: str, seed: int | None = None) -> Plan:
    file = tmp_path / "s.yaml"
    file.write_text(f"kubeletVersion: {version}\nduration: 2m\n{text}", encoding="utf-8")
    return to_plan(load_scenario(file), seed=seed)


def settings_of(plan: Plan) -> list[SettingsObserved]:
    return [r.body for r in Sim(plan).run() if isinstance(r.body, SettingsObserved)]


@pytest.mark.parametrize(
    ("version", "field", "value"),
    [
        ("1.36.2", "imageMaximumGCAge", "0s"),
        ("1.29.0", "imageMaximumGCAge", "0s"),
        ("1.28.0", "imageMaximumGCAge", None),
        ("1.20.2", "topologyManagerScope", "container"),
        ("1.19.0", "topologyManagerScope", None),
        ("1.20.2", "memoryManagerPolicy", None),
        ("1.22.0", "memoryThrottlingFactor", 0.8),
        ("1.27.0", "memoryThrottlingFactor", 0.9),
        ("1.35.0", "crashLoopBackOff", {"maxContainerRestartPeriod": "5m0s"}),
        ("1.34.0", "crashLoopBackOff", None),
        ("1.20.2", "maxPods", 110),
    ],
)
def test_settings_have_the_defaults_of_the_version(
    tmp_path: Path, version: str, field: str, value: object
) -> None:
    """Those that no flag sets among them; fields that it has not are missing."""
    assert plan_of(tmp_path, version, "").settings.get(field) == value


def test_a_status_is_reported_as_often_as_it_is_written_where_that_is_said(tmp_path: Path) -> None:
    text = "config: {nodeStatusUpdateFrequency: 20s}"
    assert plan_of(tmp_path, "1.36.2", text).settings["nodeStatusReportFrequency"] == "20s"
    assert plan_of(tmp_path, "1.36.2", "").settings["nodeStatusReportFrequency"] == "5m0s"


def test_each_setting_tells_where_it_is_from(tmp_path: Path) -> None:
    (reported,) = settings_of(plan_of(tmp_path, "1.36.2", "config: {maxPods: 30}"))
    sources = {name: setting.source for name, setting in reported.settings.items()}
    assert sources["maxPods"] == "config"
    assert sources["imageMaximumGCAge"] == "default"
    assert sources["--hostname-override"] == "flag"


def test_another_version_has_other_defaults(tmp_path: Path) -> None:
    text = "config: {maxPods: 30}\nkubeletRestarts: [{at: 1m, kubeletVersion: v1.36.2}]"
    before, after = settings_of(plan_of(tmp_path, "1.20.2", text))
    assert "imageMaximumGCAge" not in before.settings
    assert after.settings["imageMaximumGCAge"].value == '"0s"'
    assert before.settings["maxPods"] == after.settings["maxPods"]


@pytest.mark.parametrize("name", ["node-a", "node-b"])
def test_settings_are_those_of_an_import(name: str, tmp_path: Path) -> None:
    """All fields of the real node's configuration are there, with its values and sources."""
    ledger, _ = import_recording(name, tmp_path / "ledger")
    root = Path(__file__).parents[3] / "recordings" / "scenarios"
    (reported,) = settings_of(to_plan(load_scenario(root / f"{name}.yaml")))[:1]
    recorded = [r.body for r in ledger.records(name) if isinstance(r.body, SettingsObserved)][-1]
    for field, setting in recorded.settings.items():
        # The kubelet says itself that it takes another root, made its certificate, and the
        # dump of its logging options holds more than a file.
        if field.startswith("--") or field in {"cgroupRoot", "logging"} | _CERTIFICATE:
            continue
        assert reported.settings.get(field) == setting, field


_CERTIFICATE = {"tlsCertFile", "tlsPrivateKeyFile"}


POD = """
pods:
- source: {source}
  pod:
    metadata: {{name: p}}
    spec:
      resources: {resources}
      initContainers:
      - {{name: i, image: i, resources: {{requests: {{cpu: 2}}}}}}
      containers:
      - {{name: a, image: i, resources: {{requests: {{cpu: 250m, memory: 64Mi}}}}}}
      - {{name: b, image: i, resources: {{limits: {{hugepages-2Mi: 4Mi, memory: 64Mi}}}}}}
"""


def spec_of(tmp_path: Path, version: str, resources: str, more: str = "") -> dict[str, Any]:
    text = more + POD.format(resources=resources, source="api")
    spec: dict[str, Any] = plan_of(tmp_path, version, text).pods[0].manifest["spec"]
    return spec


@pytest.mark.parametrize(
    ("version", "resources", "found"),
    [
        # Requests are the containers' where they have some, else the limits.
        ("1.36.2", "{limits: {cpu: 4, memory: 1Gi}}",
         {"limits": {"cpu": "4", "memory": "1Gi", "hugepages-2Mi": "4Mi"},
          "requests": {"cpu": "2", "memory": "128Mi", "hugepages-2Mi": "4Mi"}}),
        # Requests alone stay as they are; huge pages have a limit, so all get requests.
        ("1.34.0", "{requests: {cpu: 3}}",
         {"limits": {"hugepages-2Mi": "4Mi"},
          "requests": {"cpu": "3", "memory": "128Mi", "hugepages-2Mi": "4Mi"}}),
        ("1.33.0", "{limits: {cpu: 4}}", None),
        ("1.20.2", "{limits: {cpu: 4}}", None),
    ],
)  # fmt: skip
def test_resources_of_a_pod_as_a_whole(
    tmp_path: Path, version: str, resources: str, found: object
) -> None:
    """By the version's gate; a version that does not know them does not see them."""
    assert spec_of(tmp_path, version, resources).get("resources") == found


def test_a_gate_turns_pod_level_resources_on_and_off(tmp_path: Path) -> None:
    """Alpha from 1.32 on, without huge pages there."""
    on = "config: {featureGates: {PodLevelResources: true}}\n"
    found = spec_of(tmp_path, "1.32.0", "{limits: {cpu: 4}}", on)
    assert found["resources"] == {
        "limits": {"cpu": "4"},
        "requests": {"cpu": "2", "memory": "128Mi"},
    }
    off = "config: {featureGates: {PodLevelResources: false}}\n"
    assert "resources" not in spec_of(tmp_path, "1.36.2", "{limits: {cpu: 4}}", off)


def static_pod(tmp_path: Path, version: str, **given: Any) -> str:  # noqa: ANN401  (any key)
    """UID of a static pod; ``seed`` and lines of the scenario may be given."""
    resources = given.get("resources", "{}")
    text = given.get("more", "") + POD.format(resources=resources, source="file")
    plan = plan_of(tmp_path, version, text, seed=given.get("seed"))
    return str(plan.pods[0].manifest["metadata"]["uid"])


def test_a_static_pods_uid_is_a_hash(tmp_path: Path) -> None:
    uid = static_pod(tmp_path, "1.36.2")
    assert uid == static_pod(tmp_path, "1.36.2", seed=7)
    others = {
        static_pod(tmp_path, "1.36.2", resources="{limits: {cpu: 3}}"),
        static_pod(tmp_path, "1.36.2", more="node: {name: other}\n"),
        static_pod(tmp_path, "1.36.2", more="config: {staticPodPath: /etc/pods}\n"),
        static_pod(tmp_path, "1.34.0"),
    }
    assert len({uid, *others}) == 5
    assert {len(each) for each in others} == {32}


def test_the_hash_is_the_versions() -> None:
    """MD5 before 1.35, FNV-1a after."""
    assert static_uid({}, "n", "f", 34) == md5(b"{}host:nfile:f").hexdigest()
    assert static_uid({}, "n", "f", 35) == "512e36c2fa39a81179f2d319ba5cb801"


def test_a_static_pod_that_comes_again_has_its_uid_again(tmp_path: Path) -> None:
    """It waits until the one before is gone, and its containers are new ones."""
    text = """
pods:
- {source: file, deleted: 30s, pod: &pod {metadata: {name: s}, spec: {containers: [{name: a, image: i}]}}}
- {source: file, arrives: 31s, pod: *pod}
"""  # noqa: E501
    plan = plan_of(tmp_path, "1.36.2", text)
    assert len({pod.manifest["metadata"]["uid"] for pod in plan.pods}) == 1
    records = list(Sim(plan).run())
    reported = [r.kind for r in records if r.kind.endswith(("PodAdmitted", "PodTerminated"))]
    assert reported == ["lifecycle.PodAdmitted", "lifecycle.PodTerminated", "lifecycle.PodAdmitted"]
    started = [r.body for r in records if r.kind == "lifecycle.ContainerStarted"]
    assert len({getattr(body, "container_id", None) for body in started}) == len(started) == 4
