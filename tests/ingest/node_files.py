"""A small node: log and snapshots made for tests, in the forms of a real one."""

import json
from pathlib import Path
from typing import Any

_UID = "0c8b8f31-f9c9-4d7f-88d1-8a748a34c6fe"


def snapshot_time(second: int) -> str:
    """Name of a snapshot's directory."""
    return f"20261121T0301{second:02d}Z"


def log_text(node: str = "node-x", seconds: int = 20, pid: int = 8337, first: int = 0) -> str:
    """A log: a start, then a failed probe and an image deletion each second."""
    lines = []

    def line(second: float, caller: str, text: str) -> None:
        stamp = f"1121 03:{1 + int(second) // 60:02d}:{second % 60:09.6f}"
        lines.append(f"I{stamp} {pid:7d} {caller}] {text}\n")

    line(first, "flags.go:64", f'FLAG: --hostname-override="{node}"')
    line(first, "server.go:545", '"Kubelet version" kubeletVersion="v1.36.2"')
    line(first + 0.5, "kubelet.go:1888", '"Started kubelet"')
    for second in range(first + 1, first + seconds):
        line(second, "labels.go:5", '"Label not found" label="x"')
        line(
            second + 0.1,
            "prober.go:113",
            f'"Probe failed" probeType="Liveness" pod="default/web" podUID="{_UID}" '
            f'containerName="app" probeResult="failure" output=<\n\tfail {second}\n >',
        )
        line(
            second + 0.2,
            "image_gc_manager.go:565",
            f'"Removing image to free bytes" imageID="sha256:{second:064x}" size={second}',
        )
    return "".join(lines)


def pod(name: str = "web", node: str = "node-x") -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": _UID,
            "creationTimestamp": "2026-11-21T03:00:00Z",
            "annotations": {"kubernetes.io/config.source": "api"},
        },
        "spec": {"nodeName": node, "containers": [{"name": "app", "image": "app:1"}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {"name": "app", "containerID": "containerd://abc", "restartCount": 0}
            ],
        },
    }


def write_node(root: Path, node: str = "node-x") -> Path:
    """A directory as an agent leaves it: log, node object, two snapshots."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "kubelet.log").write_text(log_text(node))
    (root / "node.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "status": {}})
    )
    for second in (5, 15):
        snapshot = root / "snapshots" / snapshot_time(second)
        snapshot.mkdir(parents=True)
        (snapshot / "pods.json").write_text(
            json.dumps(
                {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod(node=node)]}
            )
        )
        (snapshot / "cgroupfs.txt").write_text(
            f"cpu/kubepods/cpu.shares {second}\nmemory/kubepods/memory.limit_in_bytes 1024\n"
        )
        (snapshot / "cpu_manager_state").write_text(
            '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
        )
    return root
