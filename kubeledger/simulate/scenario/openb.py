"""The public Alibaba GPU trace 2023 (``openb_node_list_*.csv``, ``openb_pod_list_*.csv``).

The trace lists nodes with their GPUs, and pods with what they asked for, when they were
created, scheduled and deleted, and how they ended. It does not say on which node a pod ran;
a list with a column ``node`` does. Without one, pods are placed in the order in which they
were scheduled: on the first node, in the list's order, that has room and a GPU of the model
asked for (:mod:`kubeledger.simulate.scenario.openb_fit`).

A GPU is one device of ``nvidia.com/gpu``. On a node with pods that share GPUs each GPU is a
hundred devices of ``aliyun.com/gpu-core.percentage``, as plugins for sharing offer them: the
kubelet counts shares, and which GPU a share is of is the plugin's business.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from kubeledger.model.errors import BadQuestionError
from kubeledger.simulate.scenario.document import Document
from kubeledger.simulate.scenario.load import Loaded, load_data
from kubeledger.simulate.scenario.openb_fit import place_pods
from kubeledger.simulate.scenario.openb_rows import TraceNode, TracePod, read_nodes, read_pods
from kubeledger.simulate.scenario.problems import Path as Steps
from kubeledger.simulate.scenario.problems import Place, Problem, ScenarioError, suggestion

GPU = "nvidia.com/gpu"
SHARE = "aliyun.com/gpu-core.percentage"

_VERSION = "1.20.2"
_LEAD_S = 60
"""The simulation begins that long before the first pod, and ends that long after the last."""
_SHARES = 100
_IMAGE = "openb/task:trace"
_NAMED = 5


def load_openb(nodes_file: Path, pods_file: Path, node: str | None) -> Loaded:
    """The scenario of one node of the trace.

    Args:
        nodes_file: the list of nodes.
        pods_file: a list of pods.
        node: which one.

    Raises:
        ScenarioError: files cannot be read, or rows are wrong: all of them, with their lines.
        BadQuestionError: no node is named, or there is none of that name.
    """
    problems: list[Problem] = []
    nodes = read_nodes(nodes_file, problems)
    pods = read_pods(pods_file, problems)
    if not problems:
        _check_recorded(nodes, pods, str(pods_file), problems)
    if problems:
        raise ScenarioError(problems)
    placed = place_pods(nodes, pods)
    chosen = _chosen(nodes, placed, node)
    return load_data(_document(chosen, placed[chosen.name], str(pods_file)), pods_file.parent)


def _check_recorded(
    nodes: list[TraceNode], pods: list[TracePod], file: str, problems: list[Problem]
) -> None:
    known = {node.name for node in nodes}
    for pod in pods:
        if pod.node and pod.node not in known:
            problems.append(
                Problem(
                    place=Place(file, pod.line),
                    path="node",
                    message=f"{pod.node!r} is not in the list of nodes",
                    advice=suggestion(pod.node, known, "node"),
                )
            )


def _chosen(
    nodes: list[TraceNode], placed: dict[str, list[TracePod]], name: str | None
) -> TraceNode:
    counts = Counter({each: len(pods) for each, pods in placed.items()})
    busiest = ", ".join(f"{each} ({count} pods)" for each, count in counts.most_common(_NAMED))
    if name is None:
        raise BadQuestionError("which node?", advice=f"give --node; busiest are {busiest}")
    for node in nodes:
        if node.name == name:
            if not placed[name]:
                raise BadQuestionError(f"{name} has no pods", advice=f"busiest are {busiest}")
            return node
    raise BadQuestionError(f"there is no node {name!r}", advice=f"busiest are {busiest}")


def _document(node: TraceNode, pods: list[TracePod], file: str) -> Document:
    """A scenario as a user would write it; places are rows of the list of pods."""
    first_s = min(pod.scheduled_s for pod in pods) - _LEAD_S
    last_s = max(max(pod.deleted_s, pod.scheduled_s) for pod in pods) + 2 * _LEAD_S
    shared = any(pod.shares_gpu for pod in pods)
    places: dict[Steps, Place] = {(): Place(file, 1)}
    entries = []
    for index, pod in enumerate(pods):
        places[("pods", index)] = Place(file, pod.line)
        entries.append(_pod(pod, first_s, shared))
    data: dict[str, Any] = {
        "description": f"{node.name} of the Alibaba GPU trace 2023",
        "kubeletVersion": _VERSION,
        "duration": f"{last_s - first_s}s",
        "node": {
            "name": node.name,
            "cpus": max(node.cpu_milli // 1000, 1),
            "memory": f"{node.memory_mib}Mi",
            "cgroupVersion": 1,
            "disk": {"size": "2Ti"},
            "labels": {"openb/gpu-model": node.model} if node.model else {},
        },
        "config": {"evictionHard": {"memory.available": "100Mi"}, "maxPods": 250},
        "plugins": _plugins(node, shared),
        "images": [{"name": _IMAGE, "size": "8Gi"}],
        "pods": entries,
        "snapshotEvery": "5m",  # a trace is of months
    }
    return Document(file=file, data=data, places=places)


def _plugins(node: TraceNode, shared: bool) -> list[dict[str, Any]]:
    if not node.gpus:
        return []
    if not shared:
        devices = [f"GPU-{gpu}" for gpu in range(node.gpus)]
        return [{"resource": GPU, "devices": [{"id": each} for each in devices]}]
    devices = [f"GPU-{gpu}-{share:02d}" for gpu in range(node.gpus) for share in range(_SHARES)]
    return [
        {"resource": SHARE, "preferred": "first", "devices": [{"id": each} for each in devices]}
    ]


def _pod(pod: TracePod, first_s: int, shared: bool) -> dict[str, Any]:
    """One that ended by itself is deleted a minute after; the others end by their deletion."""
    resources = {"cpu": f"{pod.cpu_milli}m", "memory": f"{pod.memory_mib}Mi"}
    limits = dict(resources) if pod.qos == "Guaranteed" else {}
    if pod.gpus and shared:
        limits[SHARE] = str(pod.gpus * -(-pod.gpu_milli * _SHARES // 1000))
    elif pod.gpus:
        limits[GPU] = str(pod.gpus)
    arrives, deleted = pod.scheduled_s - first_s, max(pod.deleted_s, pod.scheduled_s + 1) - first_s
    container = {"name": "task", "image": _IMAGE}
    entry: dict[str, Any] = {
        "pod": {
            "metadata": {"name": pod.name, "labels": {"openb/qos": pod.qos or "none"}},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 30,
                "containers": [
                    {**container, "resources": {"requests": resources, "limits": limits}}
                ],
            },
        },
        "arrives": f"{arrives}s",
        "deleted": f"{deleted}s",
    }
    if pod.phase in {"Succeeded", "Failed"}:
        code = 0 if pod.phase == "Succeeded" else 1
        entry["containers"] = {
            "task": {"exits": [{"after": f"{deleted - arrives}s", "code": code}]}
        }
        entry["deleted"] = f"{deleted + _LEAD_S}s"
    return entry
