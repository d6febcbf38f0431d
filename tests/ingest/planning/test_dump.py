"""``kubectl cluster-info dump`` on standard output: lists below each other, then logs."""

from __future__ import annotations

import json
from pathlib import Path

from kubeledger.ingest.sources.collect import collect
from tests.ingest.node_files import pod
from tests.ingest.planning.test_bundle import EVENT, one, write

LISTS = [
    {"kind": "NodeList", "items": [{"kind": "Node", "metadata": {"name": "node-x"}}]},
    {"kind": "EventList", "items": [EVENT]},
    {"kind": "ServiceList", "items": []},
    {"kind": "PodList", "items": [pod()]},
    {"kind": "PodList", "items": None},
    {"kind": "PodList", "items": []},
]
LOG = "==== START logs for container c of pod {0} ====\n{1}\n==== END logs for container c ====\n"


def dump(logs: str) -> str:
    """As kubectl prints it."""
    return "".join(json.dumps(each, indent=4) + "\n" for each in LISTS) + logs


def test_lists_are_read_and_logs_of_containers_left_out(tmp_path: Path) -> None:
    """Each list is a file; what a container logged is none of the kubelet's."""
    apiserver = "I1121 03:01:00.000000       1 kubelet.go:7] of a container"
    path = write(tmp_path / "dump.json", dump(LOG.format("default/web", apiserver)))
    plan = one(tmp_path, path)
    assert plan.context.node == "node-x"
    assert sorted(file.format for file in plan.bundle.files) == [
        *("events", "node", "pod-list", "pod-list", "pod-list"),
    ]
    assert plan.bundle.skipped["default/web/c.log"] == "log of a container"
    assert not plan.bundle.logs


def test_in_a_directory_it_is_read_as_well(tmp_path: Path) -> None:
    """Its parts have names below its own."""
    write(tmp_path / "bundle/dump.json", dump(LOG.format("default/web", "x")))
    plan = one(tmp_path, tmp_path / "bundle")
    assert plan.context.node == "node-x"
    assert "dump/default/pods.json" in [file.source.name for file in plan.bundle.files]
    assert plan.bundle.skipped["dump/default/web/c.log"] == "log of a container"


def test_one_list_is_a_file_as_any(tmp_path: Path) -> None:
    """Nothing stands below it."""
    path = write(tmp_path / "nodes.json", json.dumps(LISTS[0], indent=4) + "\n")
    (found,) = collect([str(path)], tmp_path / "spool")
    assert not found.is_tree


def test_a_dump_that_ends_anywhere(tmp_path: Path) -> None:
    """What is whole of it is read."""
    text = dump(LOG.format("default/web", "x"))
    for end in range(len(json.dumps(LISTS[0], indent=4)) + 2, len(text), 37):
        path = write(tmp_path / str(end) / "dump.json", text[:end])
        assert one(tmp_path / str(end), path).context.node == "node-x"
