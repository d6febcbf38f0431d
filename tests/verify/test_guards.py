"""Lies of which one branch of one rule alone tells: without it nothing would be said."""

from typing import Any, NamedTuple

import msgspec
import pytest

from kubeledger.model.bodies.lifecycle import PodListed
from tests.verify.histories import changed, findings, outcomes
from tests.verify.properties.measure import is_wrong
from tests.verify.properties.truths import named


class Guard(NamedTuple):
    """A decision of a history, what it says falsely, and words that have to be said of it."""

    truth: str
    kind: str
    number: int
    lie: dict[str, Any]
    says: str


KILLED, RESTARTED = "lifecycle.ContainerKilled", "lifecycle.ContainerRestarted"
HELD_BACK, PULLED = "lifecycle.RestartBackedOff", "imagepull.PullEnded"
ANOTHERS = "4c2f555ef88719f774c7967760f08840dd0733c27494f0b06fd406db4cf6c564"
CHOSEN = "oom.ProcessKilled"
NO_STARTUP = "Container app failed startup probe, will be restarted"
EARLIER = "bba7be9afe61fceea437c22a6bd1bf870f2ece8e18b768f76c81af38a4ea6d8c"
LATER = "d771d5acb9d72e01f5bed790127d1a125610f3de787167f7223bd58ed00dd065"
GOES_ON = {
    "pod": "ready-flap", "pod_uid": "9c33f1d1-63ea-4975-bb32-0d0e6ceed50d", "container": "app",
    "container_id": "911d01e48a077a5927cf5b3fd63574e635dadc95612ca7a10a24e2ecd66aeeac",
}  # fmt: skip
SLOW = {"pod": "startup-slow", "pod_uid": "3212f4ae-2baa-40c3-9d61-a9abd4824454"}

GUARDS = (
    Guard("golden/prober-deletion-1.28.0", KILLED, 0, {"container_id": "web-app-1-other"},
          "the container that ran was web-app-1"),
    Guard("golden/prober-deletion-1.28.0", KILLED, 0, {"container": "app-other"},
          "the pod's spec has no container app-other"),
    Guard("golden/prober-deletion-1.28.0", KILLED, 0, {"reason": "a_whim"},
          "a_whim is not a reason for a kill"),
    Guard("golden/node-a-liveness", KILLED, 0, {"reason": "startup_probe", "message": NO_STARTUP},
          "container app has no startup probe"),
    Guard("golden/node-a-liveness", KILLED, 1, {"container_id": EARLIER},
          "and only what runs is killed"),
    Guard("golden/prober-grace-of-probe-1.20.2", RESTARTED, 0, {"container_id": "web-app-1"},
          "the container that was started is web-app-2"),
    Guard("golden/restarts-configured-maximum", HELD_BACK, 0, {"container": "app-other"},
          "the pod's spec has no container app-other"),
    Guard("golden/prober-grace-of-probe-1.20.2", "prober.ProbeTransitioned", 0,
          {"container": "other"}, "the tick that led to this change was for container app"),
    Guard("node-e-oom", "prober.ProbeTransitioned", 0, {"from_result": "failure"},
          "no worker changes from failure to failure"),
    Guard("node-e-oom", "prober.ProbeTransitioned", 0, {"to_result": "unknown"},
          "no worker changes from"),
    Guard("golden/devices-release", "devicemanager.DevicesReleased", 0,
          {"container": "train", "resource": "example.com/gpu"}, "at once, never a part"),
    Guard("node-a", KILLED, 1, GOES_ON | {"reason": None, "message": None},
          "at least, and was not killed again"),
    Guard("node-a", KILLED, 0, {"container_id": LATER}, "was started at"),
    Guard("node-a", "devicemanager.AllocationFailed", 0, SLOW | {"container": None},
          "no container of the pod asks for example.com/gpu"),
    Guard("node-a", "lifecycle.ReasonReported", 331, {"container": "other"},
          "an event tells of container other, which the pod does not have"),
    Guard("golden/node-a-preemption", "devicemanager.DevicesAllocated", 0,
          {"numa": {"1": ("gpu-0",)}}, "its NUMA record holds"),
    Guard("scenario/pulls/1", PULLED, 0, {"image": "example/other:1"},
          "so it cannot have ended for example/other:1"),
    Guard("scenario/pulls/1", PULLED, 0, {"whole_ms": 100_000}, "so it cannot have taken 100.0 s"),
    Guard("scenario/pulls/1", PULLED, 0, {"pull_ms": 1_009},
          "the runtime cannot have had it for 1009 ms"),
    Guard("scenario/ends/1", "lifecycle.PodAdmitted", 0, {"pod": "nobody", "pod_uid": "nobody"},
          "no line had handed a pod of that name to the kubelet"),
    Guard("node-e-oom", CHOSEN, 0, {"container": "other"}, "is app, not other"),
    Guard("node-e-oom", CHOSEN, 0,
          {"container_id": ANOTHERS, "container": None, "task_cgroup": None},
          f"container {ANOTHERS} is of pod kube-system/node-agent-node-e"),
    Guard("scenario/oom/1", CHOSEN, 0, {"reason": "node"}, "is a pod's cgroup, not a node"),
    Guard("scenario/oom/1", CHOSEN, 0, {"oom_score_adj": 976}, "was 969, not 976"),
    Guard("scenario/oom/1", CHOSEN, 0, {"allocating_task": True},
          "app asked for memory, and vm.oom_kill_allocating_task is set"),
    Guard("scenario/oom/1", CHOSEN, 0, {"pid": 2004, "chosen_pid": 2004},
          "process 2004 is not among those that could be killed"),
)  # fmt: skip


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.says)
def test_a_branch_is_guarded(guard: Guard) -> None:
    records = named(guard.truth).records
    seq = [record.seq for record in records if record.kind == guard.kind][guard.number]
    lied = outcomes(changed(records, seq, **guard.lie))
    for found, is_told in ((lied, True), (outcomes(records), False)):
        assert any(guard.says in each.why for each in found if is_wrong(each)) == is_told


@pytest.mark.parametrize("listed_by", ["kubelet", "api"])
def test_nothing_is_held_back_that_runs(listed_by: str) -> None:
    """Nor does anything lead to it: lists show that the container ran before and after.

    Those of an API server show what the kubelet told it last, whenever that was.
    """
    records = [
        msgspec.structs.replace(r, body=msgspec.structs.replace(r.body, listed_by=listed_by))
        if isinstance(r.body, PodListed)
        else r
        for r in named("node-a").records
    ]
    held = next(record for record in records if record.kind == HELD_BACK)
    alone = [msgspec.structs.replace(r, cause=None) if r is held else r for r in records]
    (found,) = (each for each in findings(changed(alone, held.seq, **SLOW), kind=HELD_BACK)
                if each.seq == held.seq)  # fmt: skip
    assert (found.verdict == "impossible") == (listed_by == "kubelet")
    assert ("and only what has ended waits" in found.why) == (listed_by == "kubelet")
