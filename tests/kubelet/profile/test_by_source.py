"""The version that is known by its source alone: what it does otherwise, and that it is told."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from kubeledger.cli.main import cli
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.kubelet.cases.registry import decider_of
from kubeledger.kubelet.eviction.local_storage import excesses
from kubeledger.kubelet.eviction.signals import PodStats
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.profile.facts import CONFIRMED, NEWEST, by_source
from kubeledger.kubelet.profile.resolve import resolve
from tests.ingest.plans import plan_sources

LAST, BEYOND = f"1.{CONFIRMED}.2", f"1.{NEWEST}.0"
ALLOCATABLE = 4 << 30


def case(version: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 # any input
    """A pod that asks for nothing, on a node with MemoryQoS."""
    pod = {
        "metadata": {"name": "web", "namespace": "ns", "uid": "u"},
        "spec": {"containers": [{"name": "app"}]},
    }
    given = {
        "pod": pod, "memoryCapacity": 8 << 30, "swapCapacity": 0, "memoryQoS": True,
        "nodeAllocatableMemory": str(ALLOCATABLE), "swapBehavior": "NoSwap", **more,
    }  # fmt: skip
    return {"id": "a", "kubelet": version, "input": given}


@pytest.mark.parametrize(
    ("version", "factor", "high"),
    [(LAST, 0.5, None), (BEYOND, 0.5, str(ALLOCATABLE // 2)), (BEYOND, None, None)],
)
def test_memory_high_of_best_effort(version: str, factor: float | None, high: str | None) -> None:
    """A part of the node's allocatable memory, where a factor is set."""
    line = json.dumps(case(version, memoryThrottlingFactor=factor)).encode()
    outcome = json.loads(decider_of("cgroupv2")(line))["outcome"]
    assert outcome["containers"]["app"]["unified"].get("memory.high") == high


@pytest.mark.parametrize(("version", "names"), [(LAST, []), (BEYOND, ["proxy"])])
def test_a_sidecar_over_its_limit_of_storage(version: str, names: list[str]) -> None:
    """It is looked at like a container; an init container that ends is not."""
    limit = {"limits": {"ephemeral-storage": "1Mi"}}
    inits = [
        {"name": "prepare", "resources": limit},
        {"name": "proxy", "restartPolicy": "Always", "resources": limit},
    ]
    spec = {"initContainers": inits, "containers": [{"name": "app"}]}
    pod = msgspec.convert({"metadata": {"name": "web"}, "spec": spec}, Pod)
    used = {"usedBytes": 2 << 20}
    stats = {
        "podRef": {"name": "web", "namespace": "ns", "uid": "u"},
        "containers": [{"name": each["name"], "rootfs": used} for each in inits],
    }
    shown = msgspec.convert(stats, PodStats)
    assert [each.name for each in excesses(pod, shown, "shared", resolve(version))] == names


@pytest.mark.parametrize("verb", ["decide", "judge"])
def test_it_is_said_once(verb: str) -> None:
    """On standard error, of the version that no decision was compared with; of others nothing."""
    line = json.dumps({**case(BEYOND, memoryThrottlingFactor=None), "outcome": {}})
    again = line.replace(BEYOND, LAST).replace("null", "0.5")
    said = CliRunner().invoke(cli, [verb, "cgroupv2"], input=f"{line}\n{line}\n{again}\n")
    assert said.stderr == f"note: kubelet {by_source(BEYOND)}\n"
    assert CliRunner().invoke(cli, [verb, "cgroupv2"], input=f"{again}\n").stderr == ""


def test_an_import_says_it(tmp_path: Path) -> None:
    log = tmp_path / "n" / "kubelet.log"
    log.parent.mkdir()
    log.write_text(f"I1121 03:01:00.000000    8337 server.go:1] Version: v{BEYOND}\n")
    (plan,) = plan_sources([str(log.parent)], tmp_path, ImportOptions())
    told = [each.message for each in plan.findings if each.finding == "version_by_source"]
    assert told == [by_source(BEYOND)]
