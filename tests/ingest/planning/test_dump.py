"""Lists below each other, or of several kinds, in one file: each kind is read as its own list."""

import json
from pathlib import Path

import pytest

from kubeledger.ingest.sources.collect import collect
from tests.ingest.node_files import pod
from tests.ingest.planning.test_bundle import EVENT, one, write

NODE = {"kind": "Node", "metadata": {"name": "node-x"}}
LISTS = [
    {"kind": "NodeList", "items": [NODE]},
    {"kind": "EventList", "items": [EVENT]},
    {"kind": "ServiceList", "items": []},
    {"kind": "PodList", "items": [pod()]},
    {"kind": "PodList", "items": None},
    {"kind": "PodList", "items": []},
]
LAST = "\nCluster info dumped to standard output\n"
LOG = "==== START logs for container c of pod {0} ====\n{1}\n==== END logs for container c ====\n"


def dump(logs: str) -> str:
    return "".join(json.dumps(each, indent=4) + "\n" for each in LISTS) + logs


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lists_of_the_next_namespace_stand_after_the_logs(tmp_path: Path, end: str) -> None:
    """Of each namespace the lists come first; what a container wrote may look like a list."""
    said = '==== START logs for container d of pod x ====\n{"kind": "PodList"'
    log = LOG.format("default/web", said).replace("\n==== END", "==== END")
    after = json.dumps({"kind": "PodList", "items": [pod(name="later")]}, indent=4)
    path = write(tmp_path / "dump.json", (dump(log) + after + LAST).replace("\n", end))
    plan = one(tmp_path, path)
    assert [file.format for file in plan.bundle.files].count("pod-list") == 4
    assert not any("pods.json" in name for name in plan.bundle.skipped)


def test_in_a_directory_it_is_read_as_well(tmp_path: Path) -> None:
    """Its parts have names below its own."""
    write(tmp_path / "bundle/dump.json", dump(LOG.format("default/web", "x")))
    plan = one(tmp_path, tmp_path / "bundle")
    assert plan.context.node == "node-x"
    assert "dump/default/pods.json" in [file.source.name for file in plan.bundle.files]
    assert plan.bundle.skipped["dump/default/web/c.log"] == "log of a container"


def test_one_list_is_a_file_as_any(tmp_path: Path) -> None:
    path = write(tmp_path / "nodes.json", json.dumps(LISTS[0], indent=4) + "\n")
    (found,) = collect([str(path)], tmp_path / "spool")
    assert not found.is_tree


def test_a_dump_that_ends_anywhere(tmp_path: Path) -> None:
    text = dump(LOG.format("default/web", "x"))
    for end in range(len(json.dumps(LISTS[0], indent=4)) + 2, len(text), 37):
        path = write(tmp_path / str(end) / "dump.json", text[:end])
        assert one(tmp_path / str(end), path).context.node == "node-x"


def without_kind(item: dict[str, object]) -> dict[str, object]:
    """As the API server lists it."""
    return {key: value for key, value in item.items() if key != "kind"}


OF_THREE = [{**NODE, "status": {"nodeInfo": {}}}, pod(), EVENT]


@pytest.mark.parametrize(
    "values",
    [
        [[{"kind": "List", "items": [item]} for item in OF_THREE]],
        [{"kind": "List", "items": [item], "apiVersion": "v1"} for item in OF_THREE],
        [OF_THREE],
        [[without_kind(item) for item in OF_THREE]],
        [{"kind": "List", "items": [without_kind(item) for item in OF_THREE]}],
        OF_THREE,
        [{"type": "ADDED", "object": item} for item in OF_THREE],
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_values_of_several_kinds(tmp_path: Path, values: list[object], indent: int | None) -> None:
    """Below each other or in an array; what an API server lists has no kind of its own."""
    text = "\n".join(json.dumps(value, indent=indent) for value in values)
    plan = one(tmp_path, write(tmp_path / "all.json", text))
    assert plan.context.node == "node-x"
    formats = sorted(str(file.format) for file in plan.bundle.files)
    assert formats == ["events", "node", "pod-list"]


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nitems:\n- kind: Pod\n  a: [\n- kind: Event\n  null\nkind: List\n",
        "apiVersion: v1\nitems:\n- kind: Pod\n- kind: Event\n- 7\nkind: List\n",
        '{"apiVersion": "v1", "items": [{"kind": "Pod"}, {"kind": "Event"}, 7], "kind": "List"}',
        '{"apiVersion": "v1", "items": [{"kind": "Pod"}, {"kind": "Event"}',
    ],
)
def test_a_broken_list_of_several_kinds_stays_one_file(tmp_path: Path, text: str) -> None:
    """Whoever reads it says what is wrong with it."""
    path = write(tmp_path / ("x.json" if text.startswith("{") else "x.yaml"), text)
    (found,) = collect([str(path)], tmp_path / "spool")
    assert len(found.files) == 1
