"""What ``deploy`` gives a recorder is no more than it needs, and passes the field's own tools."""

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from kubeledger.record.metrics import FAMILIES
from tests.cli.parsing import parse
from tests.tools import tool

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
RECORDER = DEPLOY / "recorder"
LOCKS = DEPLOY / "locks"
UNIT = DEPLOY / "systemd" / "kubeledger-record.service"
PAGE = ROOT / "docs" / "record.md"
RULES = DEPLOY / "prometheus" / "rules.yaml"
IMAGES = sorted(DEPLOY.rglob("Containerfile"))
CONTAINERFILES = [*IMAGES, ROOT / ".devcontainer" / "Containerfile"]
MANIFESTS = sorted([*(DEPLOY / "job").glob("*.yaml"), *RECORDER.glob("[!k]*.yaml")])
"""Of kinds that Kubernetes itself knows."""

HOST_PATHS = {
    "/etc/machine-id",
    "/run/log/journal",
    "/sys/fs/cgroup",
    "/var/lib/kubelet/device-plugins",
    "/var/lib/kubelet/pod-resources",
    "/var/lib/kubelet/pods-api",
    "/var/log/journal",
}
"""What may be read of a node; the ledger's own place alone is written."""
LEDGER = "/var/lib/kubeledger"
EXPOSURE_MAX = 20
"""Tenths, by ``systemd-analyze security``: 2.0 of 10 is what it calls OK."""


def documents(name: str) -> dict[str, Any]:
    return {each["kind"]: each for each in yaml.safe_load_all((RECORDER / name).read_text())}


def pod() -> dict[str, Any]:
    spec = documents("daemonset.yaml")["DaemonSet"]["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


def accepted(*words: str | Path) -> str:
    """What a tool says; it must find nothing wrong."""
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_api_server_grants_reading_and_nothing_else() -> None:
    """The kubelet's numbers and settings; never nodes/proxy, which runs commands in pods."""
    found = documents("rbac.yaml")
    (rule,) = found["ClusterRole"]["rules"]
    assert rule["apiGroups"] == [""]
    assert set(rule["verbs"]) == {"get"}
    allowed = {"nodes/metrics", "nodes/stats", "nodes/pods", "nodes/configz", "nodes/log"}
    assert set(rule["resources"]) <= allowed
    binding = found["ClusterRoleBinding"]
    account = found["ServiceAccount"]
    assert binding["roleRef"]["name"] == found["ClusterRole"]["metadata"]["name"]
    assert [subject["name"] for subject in binding["subjects"]] == [account["metadata"]["name"]]
    assert account["automountServiceAccountToken"] is False
    assert pod()["serviceAccountName"] == account["metadata"]["name"]


def test_the_pod_is_root_without_roots_powers() -> None:
    """Nor does it see other processes, the node's network, or its own image as writable."""
    spec = pod()
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & spec.keys()
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"cpu": "10m", "memory": "64Mi"}.items() <= container["resources"]["requests"].items()
    assert container["resources"]["limits"]["memory"] == "128Mi"
    assert {"livenessProbe", "readinessProbe", "startupProbe"} <= container.keys()
    assert spec["tolerations"] == [{"operator": "Exists"}]


def test_the_node_is_read_and_only_the_ledger_is_written() -> None:
    """Not the kubelet's directory as a whole: pods' secrets stand there."""
    (container,) = pod()["containers"]
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod()["volumes"]}
    assert mounts.keys() == volumes.keys()
    paths = {n: v["hostPath"]["path"] for n, v in volumes.items() if "hostPath" in v}
    assert set(paths.values()) <= HOST_PATHS | {LEDGER}
    for name, path in paths.items():
        assert mounts[name].get("readOnly", False) is (path != LEDGER), path
    for name in volumes.keys() - paths.keys():
        assert volumes[name]["emptyDir"]["sizeLimit"]
    makes = {paths[n] for n in paths if volumes[n]["hostPath"]["type"] == "DirectoryOrCreate"}
    assert "/var/log/journal" not in makes  # journald would begin to keep its journal there
    seen = {"/host" + path for path in paths.values()}
    for option in ("state", "cgroups", "journal"):
        (value,) = [a.partition("=")[2] for a in container["args"] if a.startswith(f"--{option}=")]
        assert any(path.startswith(value) for path in seen), option


def test_no_manifest_holds_a_secret() -> None:
    """Credentials come by the service account."""
    for path in [*RECORDER.rglob("*"), UNIT]:
        if path.is_file():
            text = path.read_text().lower()
            assert not re.search(r"secret_?access|secretkeyref|password|akia|session_token", text)


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.parent.name)
def test_an_image_is_of_the_repository_and_ends_without_root(path: Path) -> None:
    """In two stages of one base, of packages that are locked."""
    text = path.read_text()
    assert len(set(bases(text))) == 1
    copied = " ".join(re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE)).split()
    assert [name for name in copied if not (ROOT / name).exists()] == []
    for install in re.findall(r"pip install (.*?) \\?$", text, re.MULTILINE):
        assert re.search(r"--require-hashes -r \w+\.txt|--no-deps /wheel/", install), install
    assert re.findall(r"^USER (\S+)", text, re.MULTILINE)[-1] == "10001:10001"


def bases(text: str) -> list[str]:
    """The images that a Containerfile begins with."""
    return re.findall(r"^FROM (\S+)", text, re.MULTILINE)


@pytest.mark.parametrize("path", CONTAINERFILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_bases_are_pinned_by_digest(path: Path) -> None:
    for base in bases(path.read_text()):
        assert re.fullmatch(
            r"docker\.io/library/\w+:\d+\.\d+\.\d+-[\w-]+@sha256:[0-9a-f]{64}", base
        )


@pytest.mark.parametrize(
    ("lock", "extra"), [("recorder", "record"), ("fleet", "fleet"), ("build", "")]
)
def test_locks_hold_what_the_project_asks_for(lock: str, extra: str) -> None:
    """`just lock` writes them: exact versions, each with the hashes of its files."""
    text = (LOCKS / f"{lock}.txt").read_text()
    assert "://" not in text
    entries = re.split(r"\n(?=\S)", text.strip())
    assert all(re.match(r"[\w.-]+==", entry) and "--hash=sha256:" in entry for entry in entries)
    locked = dict(entry.split()[0].split("==") for entry in entries)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = project["project"]["dependencies"] + project["project"]["optional-dependencies"].get(
        extra, []
    )
    for wanted in map(Requirement, asked if extra else project["build-system"]["requires"]):
        assert wanted.specifier.contains(locked[wanted.name]), wanted


@pytest.mark.parametrize("path", CONTAINERFILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_hadolint(path: Path) -> None:
    accepted(tool("hadolint"), "--no-color", path)


def test_kustomize(tmp_path: Path) -> None:
    """The overlay that the page begins with builds, with both components."""
    kubectl = tool("kubectl")
    shutil.copytree(RECORDER, tmp_path / "kubeledger" / "deploy" / "recorder")
    (overlay,) = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "my-recorder").mkdir()
    (tmp_path / "my-recorder" / "kustomization.yaml").write_text(overlay)
    built = list(yaml.safe_load_all(accepted(kubectl, "kustomize", tmp_path / "my-recorder")))
    spaced = [each for each in built if not each["kind"].startswith(("Cluster", "Namespace"))]
    assert {each["kind"] for each in spaced} == {"ServiceAccount", "DaemonSet", "PodMonitor"}
    assert {each["metadata"]["namespace"] for each in spaced} == {"kubeledger"}
    (daemons,) = [each for each in built if each["kind"] == "DaemonSet"]
    recorder, verifier = daemons["spec"]["template"]["spec"]["containers"]
    assert recorder["args"][-1].startswith("--ship=s3://")
    assert recorder["securityContext"] == verifier["securityContext"]
    assert {each["image"] for each in (recorder, verifier)} == {
        "registry.example.com/kubeledger-recorder:1"
    }
    (ledger,) = (each for each in verifier["volumeMounts"] if each["name"] == "ledger")
    assert ledger["readOnly"] is True
    parse(verifier["args"])
    kubernetes = pytest.importorskip("kubernetes_validate")
    kubernetes.validate(daemons, "1.33", strict=True)


def commands() -> Iterator[list[str]]:
    """Every command line of a recorder: in the pod, the unit, and the page."""
    yield pod()["containers"][0]["args"]
    (line,) = re.findall(r"^ExecStart=\S+/kubeledger (.*)$", UNIT.read_text(), re.MULTILINE)
    (more,) = re.findall(r"KUBELEDGER_RECORD_OPTIONS=(.*)$", PAGE.read_text(), re.MULTILINE)
    yield shlex.split(line.replace("$KUBELEDGER_RECORD_OPTIONS", more))
    for line in re.findall(r"^    kubeledger (.*)$", PAGE.read_text(), re.MULTILINE):
        yield shlex.split(line.partition(" #")[0].replace(" ...", ""))


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_commands_are_real(words: list[str]) -> None:
    parse(words)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: str(path.relative_to(DEPLOY)))
@pytest.mark.parametrize("version", ["1.30", "1.33", "1.36"])
def test_manifests_are_what_kubernetes_knows(path: Path, version: str) -> None:
    """By its own schemas, no unknown field included."""
    kubernetes = pytest.importorskip("kubernetes_validate")
    for manifest in yaml.safe_load_all(path.read_text()):
        kubernetes.validate(manifest, version, strict=True)


def test_systemd(tmp_path: Path) -> None:
    analyze = tool("systemd-analyze")
    # Its program need not be on this machine.
    text = UNIT.read_text().replace("/opt/kubeledger/bin/kubeledger", "/bin/true")
    unit = tmp_path / UNIT.name
    unit.write_text(text)
    assert accepted(analyze, "verify", "--man=no", unit) == ""
    accepted(
        analyze, "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE_MAX}", unit
    )


def test_the_unit_hides_what_is_secret() -> None:
    """And lets its program write to the ledger alone."""
    text = UNIT.read_text()
    for line in (
        "CapabilityBoundingSet=",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "StateDirectory=kubeledger",
        "InaccessiblePaths=-/var/lib/kubelet/pods",
        "InaccessiblePaths=-/var/lib/kubelet/pki",
        "MemoryMax=128M",
        "Restart=always",
    ):
        assert f"\n{line}\n" in text
    assert "ReadWritePaths" not in text


def expressions() -> Iterator[tuple[str, str]]:
    """Names of alerts and panels, and what they ask."""
    for panel in json.loads((RULES.parent / "dashboard.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    yield from alerts()


def alerts() -> Iterator[tuple[str, str]]:
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


@pytest.mark.parametrize(("name", "expression"), list(expressions()))
def test_alerts_and_panels_ask_for_what_there_is(name: str, expression: str) -> None:
    """Metrics and labels of the registry, and ``up``, which is Prometheus' own."""
    labels_of = {family.name: {"instance", *family.labels} for family in FAMILIES}
    labels_of["up"] = {"instance", "job"}
    asked = re.findall(r"\b(kubeledger_\w+|process_\w+|up)\b(\{[^}]*\})?", expression)
    assert asked
    for metric, selector in asked:
        pairs = [pair for pair in selector[1:-1].split(",") if pair]
        assert {re.split("=|!", pair)[0] for pair in pairs} <= labels_of[metric], metric
    summary = RULES.read_text().partition(f"alert: {name}\n")[2].partition("- alert")[0]
    known = set.union(*(labels_of[metric] for metric, _ in asked))
    assert set(re.findall(r"\$labels\.(\w+)", summary)) <= known
    for grouped in re.findall(r"by \(([^)]*)\)", expression):
        assert set(grouped.split(", ")) <= known


def test_each_alert_is_tried() -> None:
    tests = yaml.safe_load((RULES.parent / "rules-test.yaml").read_text())["tests"]
    tried = [
        (each["alertname"], bool(each.get("exp_alerts")))
        for t in tests
        for each in t["alert_rule_test"]
    ]
    for name, _ in alerts():
        assert {(name, True), (name, False)} <= set(tried), name


def test_promtool() -> None:
    promtool = tool("promtool")
    accepted(promtool, "check", "rules", RULES)
    accepted(promtool, "test", "rules", RULES.parent / "rules-test.yaml")
