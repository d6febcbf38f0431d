"""Answers of the pod-resources API, imported from a node's directory."""

import json
from pathlib import Path
from typing import Any

import pytest

from kubeledger.ingest.api import import_sources
from kubeledger.ingest.sources.answers import is_pod_resources, read_pod_resources
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.devicemanager import (
    AllocatableResourcesListed,
    ContainerResources,
    ListedDevices,
    PodResourcesListed,
)
from kubeledger.model.bodies.resourcemanagers import MemoryBlock
from kubeledger.model.units import parse_ts
from tests.ingest.node_files import pod, snapshot_time, write_node

GPU = "example.com/gpu"


def devices(*ids: str, node: int | None = 1) -> dict[str, Any]:
    topology = {} if node is None else {"topology": {"nodes": [{"ID": str(node)}]}}
    return {"resourceName": GPU, "deviceIds": list(ids), **topology}


def listed(**container: Any) -> dict[str, Any]:  # noqa: ANN401 # JSON
    """An answer with one pod, whose container is named as that of ``node_files.pod``."""
    containers = [{"name": "app", **container}, {"name": "idle"}]
    return {"podResources": [{"name": "web", "namespace": "default", "containers": containers}]}


def test_a_record_for_each_answer_that_differs(tmp_path: Path) -> None:
    """Containers with something of their own; pods have the UIDs that their lists tell."""
    node = write_node(tmp_path / "node-x")
    for second, ids in ((5, ["g-1"]), (15, ["g-1"])):
        answer = listed(devices=[devices(*ids)])
        snapshot = node / "snapshots" / snapshot_time(second)
        (snapshot / "pod-resources.json").write_text(json.dumps(answer))
    allocatable = {"devices": [devices("g-1", "g-2")], "cpuIds": ["0", "1"], "memory": []}
    (snapshot / "pod-resources-allocatable.json").write_text(json.dumps(allocatable))
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(node)], ledger)
    given, allowed = (each for each in ledger.records() if "Resources" in each.kind)
    held = ContainerResources(
        namespace="default",
        pod="web",
        pod_uid=pod()["metadata"]["uid"],
        container="app",
        devices=(ListedDevices(resource=GPU, numa_nodes=(1,), device_ids=("g-1",)),),
    )
    assert given.body == PodResourcesListed(containers=(held,))
    assert given.ts_ns == parse_ts("2026-11-21T03:01:05Z")
    assert allowed.body == AllocatableResourcesListed(
        devices=(ListedDevices(resource=GPU, numa_nodes=(1,), device_ids=("g-1", "g-2")),),
        cpu_set="0-1",
    )


def test_what_a_container_has() -> None:
    """In the order of names and numbers, whatever the kubelet's is."""
    size = 1 << 40
    body = read_pod_resources(
        listed(
            devices=[devices("g-2", "g-1"), devices("g-0", node=None), devices("g-3")],
            cpuIds=["3", "1", "2"],
            memory=[{"memoryType": "memory", "size": str(size), "topology": {"nodes": [{}]}}],
            dynamicResources=[
                {
                    "claimNamespace": "default",
                    "claimName": "c",
                    "claimResources": [
                        {"driverName": "d", "poolName": "p", "deviceName": name} for name in "ba"
                    ],
                }
            ],
        )
    )
    assert isinstance(body, PodResourcesListed)
    (app,) = body.containers
    assert app.devices == (
        ListedDevices(resource=GPU, device_ids=("g-0",)),
        ListedDevices(resource=GPU, numa_nodes=(1,), device_ids=("g-1", "g-2", "g-3")),
    )
    assert app.cpu_set == "1-3"
    assert app.memory == (MemoryBlock(numa_nodes=(0,), type="memory", size_bytes=size),)
    assert app.claims == {"default/c": ("d/p/a", "d/p/b")}


@pytest.mark.parametrize(
    ("document", "is_one"),
    [
        ({"podResources": []}, True),
        ({"cpuIds": ["1"]}, True),
        ({"devices": [], "cpuIds": [], "memory": []}, True),
        ({}, False),
        ({"devices": [], "kind": "X"}, False),
        ({"memory": {}}, False),
    ],
)
def test_answers_are_known_by_their_fields(document: dict[str, Any], is_one: bool) -> None:
    assert is_pod_resources(document) is is_one


def test_a_field_of_another_type_is_refused() -> None:
    with pytest.raises(ValueError, match="Expected `int`"):
        read_pod_resources(listed(cpuIds=["x"]))
