"""An overloaded node, cgroup v2: what was decided, by an independent count, and what is said of it.

The counts are made by regular expressions over the raw files, which share nothing with the package.
"""

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kubeledger.model.bodies.eviction import PodPreempted, PreemptionFailed, ProcessKilled
from kubeledger.model.bodies.lifecycle import (
    ContainerKilled,
    ContainerRestarted,
    PodEvicted,
    PodRejected,
)
from kubeledger.model.bodies.node import ClockStepped
from kubeledger.model.record import Record
from kubeledger.verify import Contradiction, Finding
from tests.recordings import extract
from tests.verify.histories import outcomes, recorded

RECORDING = "node-f"
POD = r'"[\w-]+/([\w.-]+)"'
KILLING = r'"Killing container with a grace period" .* containerID="containerd://(\w+)"'
MISSING = {
    "the kubelet's version": "a snapshot before the first process",
    "imagePullCredentialsVerificationPolicy": "a pull before the settings were read",
    "the life of the pod": "a cgroup that was made before the log",
    "what the container runtime answered to this collection": "it timed out",
    "the next line of the minute timer": "a process ended before it",
    "events about starts of container grows that failed": "lost with the container runtime",
    "the pod's spec": "the pod came and went between two lists",
    "the line that hands the pod to the kubelet (SyncLoop ADD)": "none is logged",
    "a line that says so: the import worked it out of what would judge it": "readiness, inferred",
}
"""What is missing -> why it really is; amounts and times between two readings are others."""
BETWEEN = (
    "what pod",
    "whether the kubelet had statistics",
    "readiness ticks that may be missing",
    "until when pod",
    "the spec of pod",
)


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Name of a log -> its text."""
    node = extract(RECORDING, tmp_path_factory.mktemp(RECORDING))
    names: tuple[Path, ...] = (node / "kubelet.log", node / "kernel.log")
    return {path.name: path.read_text(errors="replace") for path in names}


@cache
def bodies(kind: type[Any]) -> tuple[tuple[Record, Any], ...]:
    return tuple((r, r.body) for r in recorded(RECORDING) if isinstance(r.body, kind))


def test_evictions(raw: dict[str, str]) -> None:
    """14 pods in this order; of three the kubelet did not see the end."""
    said = r'eviction_manager\.go:\d+\] "Eviction manager: pod (is|failed)[^"]*".* pod='
    truth = re.findall(said + POD, raw["kubelet.log"])
    assert len(truth) == 14
    assert [("is" if b.evicted else "failed", b.pod) for _, b in bodies(PodEvicted)] == truth


def test_preemptions(raw: dict[str, str]) -> None:
    """Three, and one that found nobody to preempt."""
    said = rf'"Preempting pod to free up resources" pod={POD}.* requestingPod={POD}'
    truth = re.findall(said, raw["kubelet.log"])
    assert len(truth) == 3
    assert [(b.victim_pod, b.preemptor_pod) for _, b in bodies(PodPreempted)] == truth
    none = rf'unexpected error while attempting to recover[^"]*" pod={POD} err="preemption: '
    assert [b.preemptor_pod for _, b in bodies(PreemptionFailed)] == re.findall(
        none, raw["kubelet.log"]
    )


def test_refusals(raw: dict[str, str]) -> None:
    """Of the pods that are denied those with an event: a resize is denied without, and deferred."""
    denied = rf'"Pod admission denied" podUID="[^"]*" pod={POD} reason="(\w+)"'
    event = rf'object={POD} fieldPath="" .* type="Warning" reason="(\w+)"'
    events = set(re.findall(event, raw["kubelet.log"]))
    truth = [each for each in re.findall(denied, raw["kubelet.log"]) if each in events]
    assert len(truth) == 19
    assert [(b.pod, b.reason) for _, b in bodies(PodRejected)] == truth


def test_kills(raw: dict[str, str]) -> None:
    truth = re.findall(rf"{KILLING} gracePeriod=(\d+)", raw["kubelet.log"])
    assert len(truth) == 65
    reported = [(b.container_id, str(b.grace_period_s)) for _, b in bodies(ContainerKilled)]
    assert Counter(reported) == Counter(truth)  # several have one stamp


def test_kills_of_the_kernel(raw: dict[str, str]) -> None:
    """Each once, with the cgroup that had used up its limit."""
    truth = re.findall(r"oom_memcg=/(\S+),task_memcg=\S+,task=(\w+),pid=(\d+)", raw["kernel.log"])
    assert len(truth) == 24
    reported = [(b.cgroup, b.process, str(b.pid)) for _, b in bodies(ProcessKilled)]
    assert reported == truth
    assert Counter(b.cgroup == "kubepods.slice" for _, b in bodies(ProcessKilled))[True] == 5


def test_restarts_and_their_causes(raw: dict[str, str]) -> None:
    """As often as a container that was seen to start was seen to start again.

    What ended the instance before is a kill of it, with the reason that its message or its pod
    gives, or its own end, with the exit code that lists show.
    """
    started = rf'object={POD} fieldPath="spec\.\w+{{([\w-]+)}}" .* reason="Started"'
    starts = Counter(re.findall(started, raw["kubelet.log"]))
    again = {key: count - 1 for key, count in starts.items() if count > 1}
    assert sum(again.values()) == 50
    assert Counter((b.pod, b.container) for _, b in bodies(ContainerRestarted)) == again
    said = r'ID":"(\w+)"} .*containerMessage="Container \w+ failed (\w+) probe, will be restarted"'
    probes = dict(re.findall(said, raw["kubelet.log"]))
    killed = {
        each: f"{probes[each]}_probe" if each in probes else "node_shutdown"
        for each in re.findall(KILLING, raw["kubelet.log"])
    }
    for _, body in bodies(ContainerRestarted):
        assert body.reason == killed.get(body.previous_container_id, "exited"), body


def test_the_clock_was_set_back_once() -> None:
    """By five seconds; lines that stand out of order are no step."""
    ((_, step),) = bodies(ClockStepped)
    assert 4 < (step.from_ts_ns - step.to_ts_ns) / 1e9 < 6


def test_nothing_is_impossible() -> None:
    """And what cannot be decided lacks what is nowhere in the files."""
    found = outcomes(recorded(RECORDING))
    assert [each for each in found if isinstance(each, Contradiction)] == []
    decided = [each for each in found if isinstance(each, Finding)]
    assert "impossible" not in {each.verdict for each in decided}
    open_ = [each for each in decided if each.verdict == "unverifiable"]
    assert len(open_) * 100 <= 5 * len(decided)
    missing = {name for each in open_ for name in each.missing}
    assert {name for name in missing if not name.startswith(BETWEEN)} <= MISSING.keys()
