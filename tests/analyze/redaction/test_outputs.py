"""A node's files with a secret in every place: none is found in anything that redaction writes."""

import gzip
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from kubeledger.analyze.sql.api import connect
from kubeledger.cli.main import cli
from tests.analyze.redaction.planted import MESSAGES, SECRETS, parts_of, spec_with, status_with
from tests.ingest.node_files import log_text, pod
from tests.mcp.asking import Call, ask_ledger

_OUTPUTS = ("jsonl", "cloudevents", "parquet", "perfetto", "page", "mcp")
_PLAIN = "plainly"
"""In place of a secret: what is seen then is no secret's part."""

_LEAST = 6
"""Fewer characters may stand in a number or in a digest by chance."""

_LINES = (
    'I{at} 8337 event.go:389] "Event occurred" object="shop/{n}" fieldPath="spec.containers{{app}}"'
    ' kind="Pod" apiVersion="v1" type="Normal" reason="Pulling" message="Pulling image'
    ' \\"{secret}\\""',
    'E{at} 8337 remote_image.go:180] "PullImage from image service failed" err="rpc error: code ='
    ' Unknown desc = denied: {secret}" image="{secret}"',
    'E{at} 8337 pod_workers.go:1251] "Error syncing pod, skipping" err="failed to \\"Start\\" for'
    ' \\"app\\" with CreateContainerError: \\"{secret}: {secret}\\"" pod="shop/{n}" podUID="{uid}"',
    'E{at} 8337 nestedpendingoperations.go:348] Operation for "{{volumeName:v-{secret}}}" failed.'
    " No retries permitted until {secret}. Error: MountVolume.SetUp failed for volume"
    ' "{secret}" (UniqueName: "v") pod "{n}" (UID: "{uid}") : {secret}',
    'I{at} 8337 event.go:389] "Event occurred" object="shop/{n}" fieldPath="" kind="Pod"'
    ' apiVersion="v1" type="Warning" reason="FailedMount" message="{secret} of {secret}"',
    'W{at} 8337 acme.go:1] said {secret}, "{secret}": key={secret}',
    'I{at} 8337 prober.go:113] "Probe failed" probeType="Liveness" pod="shop/{n}" podUID="{uid}"'
    ' containerName="app" probeResult="failure" output="{secret}"',
)


def _pods(secrets: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for number, secret in enumerate(secrets):
        listed = pod(f"web-{number}")
        listed["metadata"] |= {
            "namespace": "shop",
            "uid": _uid(number),
            "labels": {"app": secret, secret: secret},
            "annotations": {"acme": secret, secret: "", "kubernetes.io/config.source": "api"},
        }
        listed["spec"] = spec_with(secret) | {"nodeName": "node-x"}
        listed["status"] |= status_with(secret) | {"phase": "Running"}
        yield listed


def _uid(number: int) -> str:
    return f"0c8b8f31-f9c9-4d7f-88d1-{number:012}"


def _event(number: int, reason: str, message: str) -> dict[str, Any]:
    return {
        "metadata": {"name": f"e-{number}-{reason}", "namespace": "shop"},
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": f"web-{number}",
                           "uid": _uid(number)},
        "reason": reason, "message": message, "type": "Warning", "count": 1,
        "source": {"component": "kubelet", "host": "node-x"},
        "firstTimestamp": "2026-11-21T03:01:10Z", "lastTimestamp": "2026-11-21T03:01:10Z",
    }  # fmt: skip


def _state_files(secrets: tuple[str, ...]) -> dict[str, object]:
    pods = {_uid(number): secret for number, secret in enumerate(secrets)}
    claims = [
        {"Namespace": each, "ClaimName": each, "ClaimUID": each, "PodUIDs": {uid: {}, each: {}},
         "DriverName": each, "CDIDevices": {each: [f"{each}/gpu={each}"]}}
        for uid, each in pods.items()
    ]  # fmt: skip
    block = {"numaAffinity": [0], "type": "memory", "size": 1 << 30}
    amounts = {uid: {each: {"cpu": each, each: "1", "memory": "1Gi"}} for uid, each in pods.items()}
    devices = [
        {"PodUID": uid, "ContainerName": each, "ResourceName": f"acme.example/{each}",
         "DeviceIDs": {"0": [each]}, "AllocResp": b64encode(each.encode()).decode()}
        for uid, each in pods.items()
    ]  # fmt: skip
    return {
        "cpu_manager_state": {
            "policyName": "static",
            "defaultCpuSet": "0",
            "checksum": 1,
            "entries": {uid: {each: "1"} for uid, each in pods.items()},
        },
        "memory_manager_state": {
            "policyName": "Static",
            "checksum": 1,
            "machineState": {},
            "entries": {uid: {each: [block]} for uid, each in pods.items()},
        },
        "dra_manager_state": {"version": "v1", "checksum": 1, "entries": claims},
        "allocated_pods_state": {"checksum": 1, "allocationEntries": amounts},
        "actuated_pods_state": {"checksum": 1, "allocationEntries": amounts},
        "kubelet_internal_checkpoint": {
            "Data": {"PodDeviceEntries": devices, "RegisteredDevices": {}},
            "Checksum": 1,
        },
    }


def _write(directory: Path, secrets: tuple[str, ...]) -> Path:
    """A log, lists of pods and events, the node, its configuration, the kubelet's state.

    A name of a host that is secret is the node's, and stands in the names of its files.
    """
    host = next((each for each in secrets if each.startswith("ip-")), secrets[0])
    directory.mkdir()
    text = log_text()
    for number, secret in enumerate(secrets):
        shown = secret.replace("\n", " ").replace('"', "")
        for line, form in enumerate(_LINES):
            at = f"1121 03:02:{number % 60:02}.{line:06}"
            text += form.format(at=at, secret=shown, n=f"web-{number}", uid=_uid(number)) + "\n"
    (directory / f"kubelet-{host}.log").write_text(text.replace("node-x", host))
    events = [
        _event(number, reason or secret, message.format(secret))
        for number, secret in enumerate(secrets)
        for reason, message in MESSAGES.items()
    ]
    node = {
        "kind": "Node",
        "metadata": {"name": "node-x", "labels": {"acme/x": "y"} | dict.fromkeys(secrets, "z"),
                     "annotations": {f"acme/{n}": each for n, each in enumerate(secrets)}},
        "spec": {"taints": [{"key": each, "value": each, "effect": "NoSchedule"}
                            for each in secrets]},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }  # fmt: skip
    config = {
        "kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "staticPodURLHeader": {f"X-{n}": [each] for n, each in enumerate(secrets)},
        "registerWithTaints": [{"key": each, "value": each, "effect": each} for each in secrets],
        "clusterDNS": list(secrets), "featureGates": dict.fromkeys(secrets, True),
    }  # fmt: skip
    for name, content in {
        f"{host}-pods.json": {"kind": "PodList", "items": list(_pods(secrets))},
        "events.json": {"kind": "EventList", "items": events},
        "node.json": node, "kubelet-config.yaml": config, **_state_files(secrets),
    }.items():  # fmt: skip
        shown = json.dumps(content, ensure_ascii=False).replace("node-x", host)
        (directory / name).write_text(shown)
    return directory


def _ask(*arguments: str) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output


def _texts(place: Path, secrets: tuple[str, ...]) -> dict[str, str]:
    """All that can be read in what redaction writes of such a node, by output."""
    ledger = str(place / "ledger")
    _ask("import", "--ledger", ledger, str(_write(place / "node", secrets)))
    texts = {"mcp": _told(Path(ledger), len(secrets))}
    for name in _OUTPUTS[:-1]:
        out = place / f"out.{name}"
        command = ["timeline"] if name == "page" else ["export", "--format", name]
        _ask(*command, "--ledger", ledger, "--redact", "--redact-key", "k", "--out", str(out))
        texts[name] = _read(out, name)
    return texts


def _told(ledger: Path, pods: int) -> str:
    """What an agent gets to read: every tool, each view, and why of some pods."""
    views = [row[0] for row in connect(ledger).sql("SHOW TABLES").fetchall()]
    targets = ("node", *(f"shop/web-{number}" for number in range(0, pods, 5)))
    calls: list[Call] = [("overview", {}), ("state", {}), ("whatif", {"settings": ["maxPods=1"]})]
    calls += [("why", {"target": each}) for each in targets]
    calls += [("sql", {"query": f"SELECT * FROM {view}", "limit": 1000}) for view in views]
    room = {"max_tokens": 50_000}
    answers = ask_ledger(ledger, [(name, {**args, **room}) for name, args in calls], b"k" * 32)
    assert not [each.text for each in answers if each.is_error]
    return "\n".join(each.text for each in answers)


def _read(out: Path, name: str) -> str:
    if name == "parquet":
        with duckdb.connect() as connection:
            return str(connection.sql(f"FROM read_parquet('{out}')").fetchall())
    text = out.read_bytes().decode(errors="replace")
    packed = re.findall(r'<script type="application/gzip"[^>]*>([^<]*)</script>', text)
    return text + "".join(gzip.decompress(b64decode(each)).decode() for each in packed)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """Each output of a node with secrets, and of one that has none."""
    place = tmp_path_factory.mktemp("planted")
    (place / "plain").mkdir()
    planted, plain = _texts(place, SECRETS), _texts(place / "plain", (_PLAIN,))
    return {name: (planted[name], plain[name]) for name in _OUTPUTS}


@pytest.mark.slow
@pytest.mark.parametrize("name", _OUTPUTS)
def test_no_secret_is_found(outputs: dict[str, tuple[str, str]], name: str) -> None:
    planted, plain = outputs[name]
    assert len(planted) > len(plain)
    assert _PLAIN not in plain
    parts = {part for secret in SECRETS for part in parts_of(secret) if len(part) >= _LEAST}
    forms = parts | {json.dumps(part)[1:-1] for part in parts}
    assert {form for form in forms if form in planted and form not in plain} == set()


def test_they_were_there(tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger")
    _ask("import", "--ledger", ledger, str(_write(tmp_path / "node", SECRETS)))
    _ask("export", "--ledger", ledger, "--out", str(tmp_path / "out"))
    text = (tmp_path / "out").read_text()
    assert '"node":"ip-10-98-76-54.acme.internal"' in text
    assert "kubelet-ip-10-98-76-54.acme.internal.log" in text
    assert [
        each for each in SECRETS if json.dumps(each, ensure_ascii=False)[1:-1] not in text
    ] == []
