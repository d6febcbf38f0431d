"""What the parity page calls recorded can be looked up in the recordings."""

import re
from pathlib import Path

import pytest

from kubeledger.kubelet.profile.resolve import FACT_TABLES
from tests.generated.behaviours import BEHAVIOURS
from tests.recordings import extract

SHOWN: dict[tuple[str, str], list[tuple[str, str, str]]] = {
    ("admission", "insufficient_resource"): [
        ("node-a", "kubelet.log", "enough resource: cpu, requested: 900, used: 1450, capacity: "),
    ],
    ("admission", "critical_pods_preempt"): [
        ("node-b", "kubelet.log", "Preempting pod to free up resources.*requestingPod="),
    ],
    ("admission", "preempting_event_first"): [
        ("node-a", "events.json", '"reason": "Preempting"'),
        ("node-b", "kubelet.log", 'reason="Preempting" message="Preempted in order to admit'),
    ],
    ("admission", "preemptions_counted_by_first"): [
        ("node-b", "metrics.txt", r'kubelet_preemptions\{preemption_signal="cpu"\} 1'),
    ],
    ("admission", "preempted_pod_status_kept"): [
        ("node-a", "pods.json", '"status": {\\s+"message": "Preempted in order to admit critical '
         'pod",\\s+"phase": "Failed",\\s+"reason": "Preempting",\\s+"startTime": "[^"]+"\\s+}'),
        ("node-b", "kubelet.log", '"phase":"Failed","conditions":.*"type":"PodScheduled".*'
         '"reason":"Preempting"'),
    ],
    ("admission", "preempted_pod_condition"): [
        ("node-b", "kubelet.log", '"type":"DisruptionTarget","status":"True".*'
         '"reason":"TerminationByKubelet","message":"Pod was preempted by Kubelet to '),
    ],
    ("cgroups", "shares_of_requests"): [
        ("node-a", "cgroupfs", "cpu/kubepods/pod[^/ ]+/cpu.shares 256\n"),
        ("node-b", "cgroupfs", "cpu/kubepods/pod[^/ ]+/cpu.shares 204\n"),
    ],
    ("cgroups", "quota_of_limits"): [
        ("node-b", "cgroupfs", "cpu/kubepods/pod[^/ ]+/cpu.cfs_quota_us 20000\n"),
        ("node-b", "cgroupfs", "burstable/pod[^/ ]+/cpu.cfs_quota_us -1\n"),
    ],
    ("cgroups", "burstable_class_shares"): [
        ("node-a", "cgroupfs", "cpu/kubepods/burstable/cpu.shares 1280\n"),
        ("node-b", "cgroupfs", "cpu/kubepods/besteffort/cpu.shares 2\n"),
    ],
    ("cgroups", "memory_reserve"): [
        ("node-b", "cgroupfs", "kubepods/burstable/memory.limit_in_bytes 24404099072\n"),
        ("node-b", "cgroupfs", "kubepods/besteffort/memory.limit_in_bytes 24217452544\n"),
    ],
    ("cgroups", "all_pods_less_reserves"): [
        ("node-a", "cgroupfs", "cpu/kubepods/cpu.shares 1740\n"),
        ("node-b", "cgroupfs", "memory/kubepods/memory.limit_in_bytes 24471207936\n"),
    ],
    ("devices", "too_few_devices"): [
        ("node-a", "kubelet.log", 'UnexpectedAdmissionError" message="Allocate failed due to '),
        ("node-b", "kubelet.log", 'UnexpectedAdmissionError" message="Allocate failed due to '),
    ],
    ("devices", "init_devices_reused"): [
        # One pod: the device of its init container, and the same among two of the other.
        ("node-a", "checkpoint", '"36aa1f99[^"]+","ContainerName":"warmup","ResourceName":'
         r'"example.com/gpu","DeviceIDs":\{"0":\["gpu-0"\]\}'),
        ("node-a", "checkpoint", '"36aa1f99[^"]+","ContainerName":"train","ResourceName":'
         r'"example.com/gpu","DeviceIDs":\{"0":\["gpu-2","gpu-0"\]\}'),
    ],
    ("devices", "restartable_init_keeps_devices"): [
        ("node-b", "checkpoint", '"6faae5[^"]+","ContainerName":"side","ResourceName":'
         r'"example.com/gpu","DeviceIDs":\{"0":\["gpu-0"\]\}'),
        ("node-b", "checkpoint", '"6faae5[^"]+","ContainerName":"train","ResourceName":'
         r'"example.com/gpu","DeviceIDs":\{"0":\["gpu-2"\]\}'),
    ],
    ("images", "thresholds"): [
        ("node-a", "kubelet.log", "Disk usage on image filesystem is at "),
        ("node-b", "kubelet.log", "Disk usage on image filesystem is over the high threshold"),
    ],
    ("images", "first_failure_forgiven"): [
        ("node-a", "kubelet.log", "garbage collection failed once(?s:.*)failed multiple times"),
    ],
    ("images", "free_disk_space_failed"): [
        ("node-a", "kubelet.log", 'reason="FreeDiskSpaceFailed"'),
        ("node-b", "kubelet.log", 'reason="FreeDiskSpaceFailed"'),
    ],
    ("images", "shortfall_names_disk_usage"): [
        ("node-a", "kubelet.log", r"Wanted to free [0-9]+ bytes, but freed [0-9]+ bytes"),
        ("node-b", "kubelet.log", "Insufficient free disk space on the node's image filesystem"),
    ],
    ("kuberuntime", "only_failures_kill"): [
        ("node-a", "kubelet.log", "Container app failed liveness probe, will be restarted"),
        ("node-b", "kubelet.log", "Container app failed startup probe, will be restarted"),
    ],
    ("lifecycle", "least_grace_period"): [
        ("node-a", "kubelet.log", "with a 2 second grace period"),
        ("node-b", "kubelet.log", 'Killing container with a grace period".* gracePeriod=2\n'),
    ],
    ("kuberuntime", "back_off_doubles"): [
        ("node-a", "kubelet.log", "back-off 1m20s restarting failed container=app"),
        ("node-b", "kubelet.log", "back-off 2m40s restarting failed container=app"),
    ],
    ("kuberuntime", "restart_within_a_kill_looks_back"): [
        ("node-a", "kubelet.log", "back-off 40s restarting failed container=app"),
    ],
    ("prober", "failed_liveness_restarts"): [
        ("node-a", "kubelet.log", "failed liveness probe, will be restarted"),
        ("node-b", "kubelet.log", "failed liveness probe, will be restarted"),
    ],
    ("prober", "unhealthy_event"): [
        ("node-a", "kubelet.log", 'reason="Unhealthy" message="Startup probe failed: cat: '),
        ("node-b", "kubelet.log", "reason=\"Unhealthy\" message=(<\n\t|\")?Startup probe failed: "),
    ],
    ("prober", "results_wake_sync_loop"): [
        ("node-b", "kubelet.log", '"SyncLoop \\(probe\\)" probe="readiness" status="not ready"'),
    ],
    ("topology", "no_preference"): [
        ("node-a", "kubelet.log", "Hint Provider has no preference for NUMA affinity with any"),
        ("node-b", "kubelet.log", "Hint Provider has no preference for NUMA affinity with any"),
    ],
}  # fmt: skip
"""Subsystem and name -> node, file, expression that the file has."""


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], str]:
    """Node and file -> text; ``cgroupfs`` and ``checkpoint`` are those of all snapshots."""
    read: dict[tuple[str, str], str] = {}
    for node in ("node-a", "node-b"):
        directory = extract(node, tmp_path_factory.mktemp(node))
        for path in directory.iterdir():
            if path.is_file():
                read[node, path.name] = path.read_text(encoding="utf-8", errors="replace")
        for name, pattern in (("cgroupfs", "cgroupfs.txt"), ("checkpoint", "*_checkpoint")):
            found = sorted((directory / "snapshots").glob(f"*/{pattern}"))
            read[node, name] = "".join(map(_text, found))
    return read


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_all_that_is_called_recorded_is_looked_up() -> None:
    """And nothing else is."""
    called = {
        (subsystem, name)
        for tables in (FACT_TABLES, BEHAVIOURS)
        for subsystem, facts in tables.items()
        for name, fact in facts.items()
        if fact.recorded
    }
    assert called == SHOWN.keys()


@pytest.mark.parametrize(("subsystem", "name"), SHOWN)
def test_recordings_show_it(subsystem: str, name: str, texts: dict[tuple[str, str], str]) -> None:
    """The very text, number or event."""
    for node, file, expression in SHOWN[subsystem, name]:
        assert re.search(expression, texts[node, file]), (node, file)


def test_a_new_behaviour_of_the_sync_loop_is_not_in_the_old_recording(
    texts: dict[tuple[str, str], str],
) -> None:
    """Neither is the condition of a preempted pod: the other side of two changes."""
    for text in ("SyncLoop (probe)", "DisruptionTarget"):
        assert text not in texts["node-a", "kubelet.log"]
