"""``kubeledger state`` as users call it."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result
from freezegun import freeze_time

from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.tail import Draft
from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.bodies.devicemanager import DevicesAllocated, DevicesReported
from kubeledger.model.bodies.eviction import InsufficientResource, PodPreempted
from kubeledger.model.bodies.images import (
    EvictionSignalObserved,
    GarbageCollected,
    ImageFsObserved,
    ImagesDetected,
    ListedImage,
)
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerStarted,
    PodAdmitted,
    PodRejected,
)
from kubeledger.model.bodies.node import (
    KubeletStarted,
    NodeConditionChanged,
    NodeObserved,
    Setting,
    SettingsObserved,
)
from kubeledger.model.bodies.prober import ProbeExecuted
from kubeledger.model.bodies.resourcemanagers import AffinityDecided, Hint
from kubeledger.model.record import Body
from kubeledger.replay.node.state import PARTS
from tests.cli import nodes

START_NS = 1_763_694_000 * 10**9  # 2025-11-21T03:00:00Z
POD: dict[str, Any] = {"namespace": "default", "pod": "web", "pod_uid": "uid-web"}
BIG: dict[str, Any] = {"namespace": "default", "pod": "big", "pod_uid": "uid-big"}

HISTORY: tuple[Body, ...] = (
    KubeletStarted(pid=7, kubelet_version="1.36.2", version_source="log"),
    SettingsObserved(settings={"maxPods": Setting(value="110", source="default"),
                               "cgroupDriver": Setting(value='"cgroupfs"', source="config")},
                     conflicts=("the flag says otherwise",)),
    NodeObserved(capacity={"cpu": "4"}, allocatable={"cpu": "3800m"}, cpus=4, numa_nodes=(0, 1)),
    PodAdmitted(**POD),
    AffinityDecided(**POD, container="app", hint=Hint(numa_nodes=(1,), preferred=True)),
    DevicesReported(resource="example.com/gpu", total=4, healthy=4),
    DevicesAllocated(**POD, container="app", resource="example.com/gpu",
                     device_ids=("gpu-1", "gpu-3"), numa={"1": ("gpu-1", "gpu-3")}),
    ContainerStarted(**POD, container="app", container_id="c1"),
    ProbeExecuted(**POD, container="app", container_id="c1", probe_type="liveness",
                  result="failure", output="no\x1b[31m"),
    ContainerDied(**POD, container="app", container_id="c1", exit_code=137),
    ContainerStarted(**POD, container="app", container_id="c2"),
    PodRejected(**BIG, reason="OutOfcpu", message="Node didn't have enough resource"),
    PodPreempted(victim_namespace="default", victim_pod="web", victim_uid="uid-web",
                 preemptor_namespace="kube-system", preemptor_pod="critical", preemptor_uid=None,
                 insufficient=(InsufficientResource(resource="cpu", quantity=270),), evicted=None),
    ImagesDetected(images=(ListedImage(image_id="sha256:" + "a" * 64, new=True, size_bytes=5),)),
    ImageFsObserved(capacity_bytes=100, available_bytes=40),
    EvictionSignalObserved(signal="nodefs.available", available=1, capacity=2),
    GarbageCollected(outcome="failed", error="wanted to free 5 bytes"),
    CgroupUpdated(cgroup="kubepods/poduid-web", level="pod", qos_class="Guaranteed",
                  pod_uid="uid-web", cpu_shares=512, memory_limit_bytes=9223372036854771712,
                  created=True, changed=()),
)  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    made = Ledger.create(tmp_path / "ledger")
    with made.writer() as writer:
        drafts = [Draft(START_NS + n * 10**9, body) for n, body in enumerate(HISTORY)]
        writer.append("node-a", drafts)
    return made.path


def run(ledger: Path, *arguments: str, exits: int | None = None) -> Result:
    return nodes.run("state", "--ledger", ledger, *arguments, exits=exits)


def shown(ledger: Path, *arguments: str) -> str:
    result = run(ledger, *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def row(text: str, start: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.startswith(start)]
    assert len(lines) == 1
    return [cell.strip() for cell in lines[0].split("  ") if cell.strip()]


def test_json_is_canonical(ledger: Path) -> None:
    text = shown(ledger, "-o", "json")

    def no_float(number: str) -> float:
        raise AssertionError(f"a float: {number}")

    document = json.loads(text, parse_float=no_float)
    assert text == json.dumps(document, sort_keys=True, separators=(",", ":")) + "\n"
    assert set(document) == {"node", "seq", "ts_ns", *PARTS}
    assert (document["node"], document["seq"]) == ("node-a", len(HISTORY))
    assert document["ts_ns"] == START_NS + (len(HISTORY) - 1) * 10**9
    assert document["devices"]["holders"]["uid-web"]["app"]["example.com/gpu"]["device_ids"] == [
        "gpu-1", "gpu-3",
    ]  # fmt: skip
    assert document["pods"]["uid-big"]["reason"] == "OutOfcpu"


def test_table_of_everything(ledger: Path) -> None:
    narrow = shown(ledger)
    assert row(narrow, "1.36.2") == ["1.36.2", "7", "03:00:00", "0"]
    assert max(map(len, narrow.splitlines())) <= 80
    assert "uid-big" not in narrow
    text = shown(ledger, "-o", "wide")
    assert text.startswith(f"node-a  after record {len(HISTORY)}  2025-11-21T03:00:17Z\n")
    assert row(text, "1.36.2") == ["1.36.2", "7", "2025-11-21T03:00:00Z", "0"]
    assert row(text, "cpu ") == ["cpu", "4", "3800m"]
    assert row(text, "default/big") == [
        "default/big", "Failed", "no: OutOfcpu", "2025-11-21T03:00:11Z", "uid-big",
    ]  # fmt: skip
    assert "app running, restarts 1" in text
    assert row(text, "example.com/gpu  default/web") == [
        "example.com/gpu", "default/web", "app", "gpu-1 gpu-3", "1", "2025-11-21T03:00:06Z",
    ]  # fmt: skip
    assert row(text, "default/web  app        liveness")[3:6] == ["success", "failure", "1"]
    assert row(text, "sha256:aaaaaaaaaaaa ")[1:3] == ["5", "no"]
    assert row(text, "kubepods/") == [
        "kubepods/poduid-web", "default/web", "Guaranteed", "512", "max",
    ]  # fmt: skip
    assert row(text, "default/web  kube-system/critical")[2:] == [
        "cpu:270", "yes", "2025-11-21T03:00:12Z",
    ]  # fmt: skip
    assert row(text, "cgroupDriver") == ["cgroupDriver", '"cgroupfs"', "config"]
    for line in (
        "conflict: the flag says otherwise",
        "CPUs: 4",
        "memory in bytes: not known",
        "NUMA nodes by number: 0, 1",
        "image filesystem: 40 of 100 bytes free",
        "  wanted to free 5 bytes",
        "and 1 left at their default (see -o json)",
    ):
        assert line in text.splitlines()


def test_only_some_parts(ledger: Path) -> None:
    assert set(json.loads(shown(ledger, "--only", "devices, probes", "-o", "json"))) == {
        "node", "seq", "ts_ns", "devices", "probes",
    }  # fmt: skip
    titles = [line for line in shown(ledger, "--only", "pods").splitlines() if line.isupper()]
    assert titles == ["PODS (2)"]


@pytest.mark.parametrize(
    ("arguments", "seq"),
    [
        (("--at", "2025-11-21T03:00:04Z"), 5),
        (("--at", "2025-11-21T03:00:04.999Z"), 5),
        (("--seq", "3"), 3),
        (("--at", "now"), len(HISTORY)),
        (("--at", "-1h"), 1),
        (("--at", "-3590s"), 11),
    ],
)
@freeze_time("2025-11-21T04:00:00Z")
def test_instants(ledger: Path, arguments: tuple[str, str], seq: int) -> None:
    assert json.loads(shown(ledger, *arguments, "--only", "counts", "-o", "json"))["seq"] == seq


def test_before_the_first_record(ledger: Path) -> None:
    result = run(ledger, "--at", "2020-01-01T00:00:00Z", "-o", "json", exits=0)
    assert "node-a has no record at 2020-01-01T00:00:00Z or before" in result.stderr
    document = json.loads(result.stdout)
    assert (document["node"], document["seq"], document["ts_ns"]) == ("node-a", 0, None)
    assert document["pods"] == {}
    assert "nothing recorded" in run(ledger, "--seq", "0").stdout


def test_several_nodes(ledger: Path) -> None:
    with Ledger.open(ledger).writer() as writer:
        writer.append("node-b", [Draft(START_NS, HISTORY[0])])
    result = run(ledger, exits=2)
    assert "2 nodes: node-a, node-b" in result.stderr
    assert shown(ledger, "--node", "node-b").startswith("node-b  after record 1 ")


def test_what_nobody_watched_is_not_known(tmp_path: Path) -> None:
    """No kubelet was heard of: no count is 0, and that nothing is reported is no pressure."""
    made = Ledger.create(tmp_path / "ledger")
    pressed = NodeConditionChanged(condition="DiskPressure", status="True", transition_ts_ns=1)
    bodies = (NodeObserved(cpus=4), pressed, msgspec.structs.replace(pressed, status="False"))
    with made.writer() as writer:
        writer.append("node-a", [Draft(START_NS + n, body) for n, body in enumerate(bodies)])
    pressures = []
    for seq in (1, 2, 3):
        found = json.loads(shown(made.path, "-o", "json", "--seq", str(seq)))
        assert set(found["counts"].values()) == {None}
        assert found["kubelet"]["restarts"] is None
        pressures.append(found["machine"]["pressure"])
    assert pressures == [None, {"DiskPressure": 1}, {}]
    text = shown(made.path, "--seq", "1")
    assert "pressure conditions: not known" in text
    assert row(text, "kubelet_restarts") == ["kubelet_restarts", "not known"]
