from __future__ import annotations

from pathlib import Path

import pytest

from kubeledger.model.errors import BadQuestionError
from kubeledger.simulate.scenario import ScenarioError, to_plan
from kubeledger.simulate.scenario.openb import GPU, SHARE, load_openb

NODES = """sn,cpu_milli,memory_mib,gpu,model
cpu-only,32000,262144,0,
old,16000,65536,2,P100
new,96000,393216,4,G2
"""
HEAD = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time"
)
PODS = f"""{HEAD}
p0,1000,1024,1,1000,,LS,Running,0,1000,5
p1,1000,1024,1,460,G2|T4,BE,Succeeded,10,2000,10
p2,1000,1024,2,1000,,Guaranteed,Failed,20,3000,20
p3,1000,1024,0,0,,LS,Running,30,4000,30
p4,1000,1024,1,1000,,LS,Pending,40,50,
p5,1000,1024,2,1000,P100,LS,Running,1000,5000,1001
"""


@pytest.fixture
def trace(tmp_path: Path) -> tuple[Path, Path]:
    """Lists of nodes and pods in the trace's form, written by hand."""
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text(NODES, encoding="utf-8")
    pods.write_text(PODS, encoding="utf-8")
    return nodes, pods


def names(trace: tuple[Path, Path], node: str) -> list[str]:
    """Pods of a node, in the order in which they come."""
    plan = to_plan(load_openb(*trace, node))
    return [pod.manifest["metadata"]["name"] for pod in plan.pods]


def test_pods_go_where_they_fit_first(trace: tuple[Path, Path]) -> None:
    """By model and by what is free at that time; GPUs come back when a pod is deleted."""
    assert names(trace, "cpu-only") == ["p3"]
    assert names(trace, "old") == ["p0", "p5"]
    assert names(trace, "new") == ["p1", "p2"]


def test_a_node_whose_pods_share_gpus_offers_shares(trace: tuple[Path, Path]) -> None:
    """A hundred of each GPU; else a GPU is one device."""
    plan = to_plan(load_openb(*trace, "new"))
    (plugin,) = plan.plugins
    assert (plugin.resource, len(plugin.devices)) == (SHARE, 400)
    shares = [pod.manifest["spec"]["containers"][0]["resources"]["limits"] for pod in plan.pods]
    assert shares[0] == {SHARE: "46"}
    assert shares[1] == {"cpu": "1", "memory": "1Gi", SHARE: "200"}
    (plugin,) = to_plan(load_openb(*trace, "old")).plugins
    assert [device.id for device in plugin.devices] == ["GPU-0", "GPU-1"]
    assert plugin.resource == GPU


def test_pods_end_as_the_trace_says(trace: tuple[Path, Path]) -> None:
    """A minute of lead; Succeeded and Failed end by themselves, Running when deleted."""
    plan = to_plan(load_openb(*trace, "new"))
    seconds = [(pod.arrives_ns // 10**9, (pod.deleted_ns or 0) // 10**9) for pod in plan.pods]
    assert seconds == [(60, 60 + 1990 + 60), (70, 70 + 2980 + 60)]
    assert [pod.scripts["task"].exits[0].code for pod in plan.pods] == [0, 1]
    (first, _) = to_plan(load_openb(*trace, "old")).pods
    assert first.scripts == {}
    assert plan.node.labels == {"openb/gpu-model": "G2"}


def test_a_recorded_node_is_believed(trace: tuple[Path, Path]) -> None:
    """Whether the pod fits or not."""
    trace[1].write_text(f"{HEAD},node\np0,1000,1024,8,1000,,LS,Running,0,9,5,old\n")
    assert names(trace, "old") == ["p0"]


@pytest.mark.parametrize(
    ("row", "column", "message"),
    [
        ("p0,x,1,0,0,,LS,Running,0,9,5", "cpu_milli", "whole number, not 'x'"),
        ("p0,1,-1,0,0,,LS,Running,0,9,5", "memory_mib", "whole number, not '-1'"),
        ("p0,1,1,1,2000,,LS,Running,0,9,5", "gpu_milli", "at most 1000, not '2000'"),
        ("p0,1,1,0,0,,LS,Gone,0,9,5", "pod_phase", "'Succeeded', not 'Gone'"),
        ("p0,1,1,0,0,,LS,Running,9,5,9", "deletion_time", "before its creation"),
        ("p0,1,1,0,0,,LS,Running,5,9,1", "scheduled_time", "before its creation"),
        ("p0,1,1", "", "has 3 cells, not 11"),
        (",1,1,0,0,,LS,Running,0,9,5", "name", "must not be empty"),
    ],
)
def test_a_bad_row_is_named_with_its_line(
    row: str, column: str, message: str, trace: tuple[Path, Path]
) -> None:
    """With its column."""
    trace[1].write_text(f"{HEAD}\n{row}\n")
    with pytest.raises(ScenarioError) as caught:
        load_openb(*trace, "old")
    (problem,) = caught.value.problems
    assert (problem.place.file, problem.place.line) == (str(trace[1]), 2)
    assert problem.path == column
    assert message in problem.message


def test_all_bad_rows_of_both_files_are_told(trace: tuple[Path, Path]) -> None:
    """Twice, of another type, on a node that is not listed."""
    trace[0].write_text(f"{NODES}new,1,1,0,\nodd,1,1,2,\n")
    trace[1].write_text(f"{PODS}p0,1,1,0,0,,LS,Running,0,9,5\n")
    with pytest.raises(ScenarioError) as caught:
        load_openb(*trace, "old")
    found = {(Path(each.place.file).name, each.place.line) for each in caught.value.problems}
    assert found == {("nodes.csv", 5), ("nodes.csv", 6), ("pods.csv", 8)}
    trace[0].write_text(NODES)
    trace[1].write_text(f"{HEAD},node\np0,1,1,0,0,,LS,Running,0,9,5,none\n")
    with pytest.raises(ScenarioError, match=r"pods.csv:2: node: 'none' is not in the list"):
        load_openb(*trace, "old")


def test_files_that_are_none(trace: tuple[Path, Path], tmp_path: Path) -> None:
    """No file, no text, other columns."""
    with pytest.raises(ScenarioError, match="cannot be read"):
        load_openb(tmp_path / "none.csv", trace[1], "old")
    with pytest.raises(ScenarioError, match="has no column sn, gpu, model"):
        load_openb(trace[1], trace[1], "old")
    trace[0].write_bytes(b"\x1f\x8b\xff")
    with pytest.raises(ScenarioError, match="is not text"):
        load_openb(*trace, "old")


@pytest.mark.parametrize("node", [None, "none"])
def test_a_node_must_be_named(node: str | None, trace: tuple[Path, Path]) -> None:
    """The error names the busiest."""
    with pytest.raises(BadQuestionError) as caught:
        load_openb(*trace, node)
    assert "old (2 pods)" in caught.value.advice
