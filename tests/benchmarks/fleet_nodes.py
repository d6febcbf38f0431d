"""Simulated nodes for the benchmark of fleets: ``python -m tests.benchmarks.fleet_nodes DIR N``.

Each node has a seed, a kubelet's version and a pool of its own, and twelve minutes in which much
happens to few pods: probes that flap and that kill, images that fill a disk and come back,
preemptions, OOM kills, devices, a restart of the kubelet. A recording a node; one source in forty
is broken.

It is no real node-day: 800 records in place of 50,000 to 300,000, and no log that would have to be
read. ``docs/internals/performance.md`` says what one costs, and what a real one does.
"""

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from kubeledger.ledger.standalone import encode_recording, write_lines
from kubeledger.simulate.engine.sim import Sim
from kubeledger.simulate.scenario.load import load_scenario
from kubeledger.simulate.scenario.plan import to_plan

_VERSIONS = (
    *("1.20.2", "1.22.17", "1.24.17", "1.25.16", "1.26.15", "1.27.16", "1.28.15", "1.29.14"),
    *("1.30.14", "1.31.6", "1.32.3", "1.33.1", "1.34.1", "1.35.0", "1.36.2"),
)
_POOLS = ("web", "batch", "gpu", "mixed")
_STARTS = ("2026-01-01T08:00:00Z", "2026-01-01T23:54:00Z", "2026-01-02T08:00:00Z")
_BROKEN_EACH = 40
_GPUS = {
    "resource": "example.com/gpu",
    "devices": [{"id": f"gpu-{index}", "numa": 0} for index in range(4)],
    "events": [{"at": "3m", "unhealthy": ["gpu-3"]}, {"at": "4m", "healthy": ["gpu-3"]}],
}


def is_broken(number: int) -> bool:
    """Whether a node's source is cut in the middle."""
    return number % _BROKEN_EACH == _BROKEN_EACH - 1


def scenario(number: int) -> dict[str, Any]:
    """A node's twelve minutes, as ``kubeledger simulate`` reads it."""
    version = _VERSIONS[number % len(_VERSIONS)]
    pool = _POOLS[number // len(_VERSIONS) % len(_POOLS)]
    minor = int(version.split(".")[1])
    return {
        "kubeletVersion": version,
        "seed": number,
        "start": _STARTS[number % 7 % len(_STARTS)],
        "duration": "12m",
        "snapshotEvery": "2m",
        "node": {
            "name": f"{pool}-{number:05}",
            "cpus": 4,
            "memory": "8Gi",
            "cgroupVersion": 1 if minor < 25 else 2,
            "disk": {"size": "40Gi", "used": "18Gi"},
            "labels": {"eks.amazonaws.com/nodegroup": pool},
        },
        "config": {
            "imageGCHighThresholdPercent": 80 if number % 7 else 75,  # one in seven differs
            "imageGCLowThresholdPercent": 65,
            "imageMinimumGCAge": "1m",
            "evictionHard": {"nodefs.available": "1%", "memory.available": "100Mi"},
        },
        "images": list(_images(pool, minor)),
        "plugins": [_GPUS] if pool == "gpu" else [],
        "pods": list(_pods(number, pool)),
        "diskChanges": [{"at": "4m50s", "bytes": f"{1 + number % 3}Gi"}],
        "kubeletRestarts": [{"at": "6m", "down": "20s"}] if number % 5 == 0 else [],
    }


def _images(pool: str, minor: int) -> Iterator[dict[str, Any]]:
    pause = "k8s.gcr.io/pause:3.2" if minor < 25 else "registry.k8s.io/pause:3.9"
    yield {"name": pause, "size": "1Mi"} | ({"pinned": True} if minor >= 23 else {})
    for name in ("web", "job", "static", "leak"):
        yield {"name": f"example/{name}:1", "size": "1Gi"}
    for index in range(3):
        again = ["5m30s", "7m", "9m"]
        yield {"name": f"example/{pool}-tool:{index}", "size": "4Gi", "at": "1m", "again": again}


def _pod(name: str, image: str, cpu: str, **more: object) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": "64Mi"}
    app = {"name": "app", "image": f"example/{image}:1", "resources": {"requests": requests}}
    return {"metadata": {"name": name}, "spec": {"containers": [{**app, **more}]}}


def _pods(number: int, pool: str) -> Iterator[dict[str, Any]]:
    probe = {"httpGet": {"port": 8080}, "periodSeconds": 5 + number % 3 * 5}
    probes = {
        "readinessProbe": {**probe, "failureThreshold": 1},
        "livenessProbe": {**probe, "failureThreshold": 3},
    }
    for index in range(2):
        yield {
            "pod": _pod(f"web-{index}", "web", "500m", **probes),
            "arrives": f"{10 + index}s",
            "containers": {"app": {"probes": _probes(number + index)}},
        }
    grows = 2 + number % 5
    memory = (("0s", "40Mi"), (f"{grows}m", "300Mi"), (f"{grows + 1}m", "50Mi"))
    yield {
        "pod": _pod("leak", "leak", "100m", resources={"limits": {"memory": "256Mi"}}),
        "arrives": "12s",
        "containers": {"app": {"usage": [{"from": at, "memory": size} for at, size in memory]}},
    }
    for turn in range(5):
        pod = _pod(f"job-{turn}", "job", "1")
        pod["spec"]["restartPolicy"] = "OnFailure"
        if pool == "gpu":
            pod["spec"]["containers"][0]["resources"]["limits"] = {"example.com/gpu": 2}
        yield {
            "pod": pod,
            "arrives": f"{60 + turn * 130}s",
            "deleted": f"{180 + turn * 130}s",
            "containers": {"app": {"exits": [{"after": "40s", "code": (number + turn) % 2}]}},
        }
    if number % 2:  # takes a place that it has to make first
        static = _pod("static", "static", "2500m")
        static["metadata"]["namespace"] = "kube-system"
        yield {"pod": static, "arrives": "5m", "source": "file"}


def _probes(number: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if number % 3 == 0:
        times = [{"from": f"{3 + turn}m", "for": "30s"} for turn in range(8)]
        found["readiness"] = {"since": "start", "fails": times}
    if number % 4 == 0:
        found["liveness"] = {"since": "start", "fails": {"from": "9m", "for": "1m"}}
    return found


def write_node(number: int, directory: Path) -> Path:
    """Write a node's source, unless it is there."""
    plan = to_plan(load_scenario("generated", msgspec.json.encode(scenario(number))))
    path = directory / f"{plan.node.name}.ledger.jsonl.zst"
    if path.exists():
        return path
    write_lines(path, encode_recording(Sim(plan).run()))
    if is_broken(number):
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
    return path


def write_fleet(directory: Path, count: int) -> list[Path]:
    """Write the sources of this many nodes, on two processors."""
    directory.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(2) as pool:
        return list(pool.map(partial(write_node, directory=directory), range(count), chunksize=8))


if __name__ == "__main__":
    began = time.monotonic()
    written = write_fleet(Path(sys.argv[1]), int(sys.argv[2]))
    size = sum(path.stat().st_size for path in written)
    print(f"{len(written)} nodes, {size / 1e6:.1f} MB, {time.monotonic() - began:.0f} s")
