"""Containers that start, die, are killed, start again or have to wait, and whose an ID is."""

import pytest

from kubeledger.model.bodies.lifecycle import ContainerStarted, PodStarted
from tests.ingest.feeding import at, bodies
from tests.ingest.pod_world import ingest_lines, klog, know_pod, world
from tests.ingest.scenes import played_out

_SKIPPED = r"with CrashLoopBackOff: \"back-off {1} restarting failed container=c pod={A}\""
WORDS = {
    "RUNS": "-3600 loop | 0 sandbox 0 | 1 started 1",
    "made": 'cpu_manager.go "Added Container" pod="shop/a" podUID="{a}" containerName="c" '
    'containerID="{id}"',
    "skipped": r'pod_workers.go "Error syncing pod, skipping" err="failed to '
    rf'\"StartContainer\" for \"c\" {_SKIPPED}" pod="shop/a"',
    "Died": 'kubelet.go "SyncLoop (PLEG): event for pod" pod="shop/a" event={"ID":"{a}",'
    '"Type":"ContainerDied","Data":"{id}"}',
    "foreign": 'kubelet.go "SyncLoop (PLEG): event for pod" pod="shop/b" event={"ID":"b-1",'
    '"Type":"ContainerDied","Data":"{id}"}',
    "exit": 'generic.go "Generic (PLEG): container finished" podID="{a}" containerID="{id}" '
    "exitCode={2}",
    "unwanted": "kuberuntime_manager.go Killing unwanted container "
    '"c"(id={"containerd" "{id}"}) for pod "{A}"',
    "unkilled": 'kuberuntime_container.go Container "containerd://{id}" termination failed with '
    "gracePeriod 30: x",
    "fails": 'prober.go Liveness probe for "{A}:c" failed (failure): x',
    "measured": 'pod_startup_latency_tracker.go "Observed pod startup duration" pod="shop/a" '
    "podStartSLOduration=1.25",
    "waits": "event.go "
    '"Event occurred" object="shop/a" kind="Pod" apiVersion="v1" type="Warning" '
    'reason="BackOff" message="Back-off restarting failed container"',
}

SCENES = """
a relist tells a container as that of another pod
    RUNS
    5 foreign 1
    = FindingReported finding=lines_disagree
a start that the PLEG tells needs no other sign
    ~ spec c
    0 sandbox 0 | 1 started 1 | 1.5 measured
    = ContainerStarted container=c sandbox=False
    = !PodStarted
starts that name nobody may be anything's
    ~ spec c d
    1 started 1 | 1.1 started 0 | 1.5 measured
    = PodStarted @1.5 pod=a
names come from pod statuses
    ~ spec c d
    ~ ran d 1 {"restartCount":0}
    1 started 1 | 1.1 started 2
    = ContainerStarted container=d sandbox=False
    = ContainerStarted container=None sandbox=None
the only container beside the sandbox
    ~ spec c
    0 sandbox 0 | 1 started 1 | 1.1 started 0
    = ContainerStarted container=c sandbox=False
    = ContainerStarted container=None sandbox=True
what ended before a log that begins late is not the sandbox beside a container
    ~ spec c
    ~ id 2 c
    0 died 1 | 0.1 started 0 | 5 started 2 | 9 died 0
    = ContainerDied @0 container=None sandbox=None
    = ContainerStarted @0.1 container=None sandbox=None
    = ContainerStarted @5 container=c
    = ContainerDied @9 container=None sandbox=None
what a process before told is none beside what the next one tells first
    ~ spec c
    0 started 0 | 5 loop | 5.1 started 1
    = ContainerStarted @0 container=None sandbox=None
    = ContainerStarted @5.1 container=None sandbox=None
what the relist shows that told an instance late is no successor of it
    ~ spec c d
    ~ id 1 c
    0 why 1 Container c failed startup probe | .1 grace 1 30 | 1 started 1 | 1.1 started 0
    = ContainerStarted @1 container=c
    = ContainerStarted @1.1 container=None sandbox=None
the only container that was started
    ~ spec c d
    0 sandbox 0 | .5 event a Started Started container d | 1 started 1
    = ContainerStarted container=d lines=2,3
two containers at once are not guessed
    ~ spec c d
    0 sandbox 0 | .5 event a Started Started container c | .5 event a Started Started container d
    1 started 1 | 1 started 2
    = ContainerStarted container=None
    = ContainerStarted container=None
a back-off names what ended, which was a restart: the first one waits for nothing
    -1 nosandbox | 0 started 0 | 2 started 1 | 5 died 1 | 5.1 skipped 10s
    20 started 2 | 25 died 2 | 25.1 skipped 20s | 50 died 3
    = ContainerRestarted @2 container=c container_id=1 previous_container_id=None reason=None
    = ContainerRestarted @20 container=c container_id=2 previous_container_id=1 reason=exited
    = ContainerRestarted @50 container=c container_id=3 previous_container_id=2 reason=exited
a back-off beside another container may be about either
    0 started 0 | 2 started 1 | 2.5 started 2 | 5 died 1 | 5.1 skipped 10s
    = !ContainerRestarted
a back-off after another container ended may be about either
    0 started 0 | 2 started 1 | 2.5 started 2 | 4.5 died 2 | 5 died 1 | 5.1 skipped 10s
    = !ContainerRestarted
the first event of a sandbox may be an end: it is not ready at first
    0 died 0 | 1 started 0 | 2 started 1 | 5 died 1 | 5.1 skipped 10s
    = ContainerRestarted container=c container_id=1 previous_container_id=None reason=None
the sandbox comes alone after a new one was called for
    0 nosandbox | 1 started 0 | 4 died 0 | 5 started 1
    = ContainerDied sandbox=True
what comes with a container may be the sandbox, or not
    0 nosandbox | 1 started 1 | 1 started 0 | 4 died 1
    = ContainerDied sandbox=None
kills name all containers of the pod: what ended beside the running ones was the other
    ~ id 2 d
    ~ id 3 c
    0 started 0 | 2 started 1 | 3 started 2 | 20 died 1 | 21 started 3
    = ContainerRestarted container=c container_id=3 previous_container_id=1 reason=exited
an init container ends before the others start, and one may start long after
    ~ id 2 d
    ~ id 3 c
    0 started 0 | 2 started 1 | 2.5 died 1 | 3 started 2 | 20 started 3
    = !ContainerRestarted
a first start after an init container's end is no restart
    ~ id 2 c
    0 started 0 | 2 started 1 | 3 died 1 | 4 started 2
    = !ContainerRestarted
    = ContainerStarted container=None
    = ContainerStarted container=None
    = ContainerStarted container=c

an exit code from the line before
    ~ spec c
    1 exit 1 137 | 1.1 Died 1
    = ContainerDied container_id=1 exit_code=137
an exit code from the status
    ~ spec c
    ~ ran c 2 1 {"restartCount":1,"ended":{"exitCode":3,"finishedAt":"2026-11-21T10:00:00Z"}}
    1 died 1
    = ContainerDied container=c exit_code=3
a container that ended by itself restarts
    ~ spec c
    RUNS
    9 died 1 | 9.1 started 2
    = ContainerRestarted container=c container_id=2 previous_container_id=1 <ContainerDied
an instance that came and went between two relists is a restart
    ~ spec c
    RUNS
    9 died 1 | 20 died 2
    = ContainerRestarted container_id=2
so is one whose hook failed: it is killed at once, so the relists see but its end
    ~ spec c
    RUNS
    8.1 kill 1 3 | 8.2 event:c a Killing FailedPostStartHook | 8.9 died 1
    20.1 kill 2 3 | 20.2 event:c a Killing FailedPostStartHook | 20.9 died 2
    = ContainerRestarted container_id=2 previous_container_id=1 reason=post_start_hook
where no line tells its ID it is not the one before that is killed
    ~ spec c
    RUNS
    8.9 died 1 | 20.2 event:c a Killing FailedPostStartHook
    = ContainerKilled container=c container_id=None reason=post_start_hook
what a probe killed had run before
    ~ spec c
    RUNS
    8.1 kill 1 3 | 8.2 event:c a Killing {PROBED} | 8.9 died 1
    20.1 kill 2 3 | 20.2 event:c a Killing {PROBED} | 20.9 died 2
    = !ContainerRestarted
what a restarted kubelet finds is no restart
    ~ spec c
    ~ ran c 2 1 {"restartCount":1,"ended":{"exitCode":0}}
    -3600 loop | 1 died 1 | 1.1 started 2 | 30 started 3
    = !ContainerRestarted
    = ContainerStarted container_id=2
    = ContainerStarted container_id=3
what a restarted kubelet finds dead does not die again
    ~ spec c
    RUNS
    5 died 1 | 600 loop | 601 died 1 | 601 died 2
    = ContainerDied @5 container_id=1
    = ContainerDied @601 container_id=2
the first relist may hold a restart by this kubelet
    ~ spec c
    ~ ran c 2 {"restartCount":4,"state":{"running":{"startedAt":"2026-11-21T09:00:01Z"}}}
    -3600 loop | -3598.5 started 2
    = ContainerRestarted previous_container_id=None restart_count=4 reason=None
a restart counted by the status when the log begins late
    ~ spec c
    ~ ran c 2 {"restartCount":2}
    1 died 1 | 1.1 started 2
    = ContainerRestarted container_id=2 restart_count=2

an instance that came and went is told by the line of its making and the event of its start
    ~ spec c
    RUNS
    9 died 1 | 9.1 made 2 | 9.5 event:c a Started Started | 20 died 2
    = ContainerStarted container=c container_id=1
    = ContainerStarted @9.5 container_id=2 lines=6
    = ContainerRestarted @9.5 container_id=2 previous_container_id=1 reason=exited lines=6,7
so is one that no relist sees, when the next one is made
    ~ spec c
    RUNS
    9 died 1 | 9.1 made 2 | 9.5 event:c a Started Started | 30 made 3 | 40 started 3
    = ContainerRestarted @9.5 container_id=2 previous_container_id=1 lines=6
    = ContainerRestarted @40 container_id=3 previous_container_id=2
or when the log ends
    ~ spec c
    RUNS
    9 died 1 | 9.1 made 2 | 9.5 event:c a Started Started
    = ContainerRestarted @9.5 container_id=2 previous_container_id=1 lines=6
what was made and never started is no restart, and what follows it is one
    ~ spec c
    ~ ran c 2 1 {"restartCount":1,"state":{"terminated":{"exitCode":128,"startedAt":"{EPOCH}"}}}
    RUNS
    9 died 1 | 9.1 made 2 | 20 died 2 | 21 started 3
    = ContainerRestarted @21 container_id=3 previous_container_id=2
the first that ran after starts that failed is no restart
    ~ spec c
    ~ ran c 2 1 {"restartCount":1,"ended":{"exitCode":128,"startedAt":"{EPOCH}"}}
    ~ ran c 1 {"restartCount":0}
    -3600 loop | 0 sandbox 0 | 9 died 1 | 20 started 2
    = !ContainerRestarted
lists that show when it began show a restart, too
    ~ spec c
    ~ ran c 2 1 {"restartCount":1,"state":{"running":{"startedAt":"2026-11-21T10:00:12Z"}}}
    RUNS
    9 died 1 | 60 died 2
    = ContainerRestarted @12 container_id=2 previous_container_id=1
a late relist reports the newest end first: the order is that of lists
    ~ spec c
    ~ ran c 3 2 {"restartCount":2,"state":{"terminated":{"exitCode":128,"startedAt":"{EPOCH}"}}}
    RUNS
    9 died 1 | 9.1 made 2 | 9.5 event:c a Started Started | 60 loop | 61 died 3 | 61 died 2
    = ContainerRestarted @9.5 container_id=2 previous_container_id=1
one that was killed before a relist saw it did not follow itself
    ~ spec c
    ~ ran c 1 {"restartCount":0}
    -3600 loop | 0 sandbox 0 | 2 kill 1 3 | 5 started 1 | 6 died 1
    = !ContainerRestarted

a kill with its reason in the message: a probe
    .1 why 1 {PROBED} | .2 unwanted 1 | .3 grace 1 30 | .4 event a Killing {PROBED}
    = ContainerKilled container=c reason=liveness_probe grace_period_s=30 lines=1,2,3,4
a kill with its reason in the message: a startup probe
    .1 why 1 Container c failed startup probe | .3 grace 1 30
    = ContainerKilled reason=startup_probe message=Container c failed startup probe
a kill with its reason in the message: another spec
    .1 why 1 Container c definition changed, will be restarted | .3 grace 1 30
    = ContainerKilled reason=spec_changed
a structured kill with the period that was given
    .3 override 1 1 | .3 kill 1 1 | .4 event:c a Killing Stopping container c
    = !FindingReported
    = ContainerKilled reason=None grace_period_s=1 lines=1,2,3 message=Stopping container c
a structured kill with the minimum, which holds for a period that was given since 1.28 only
    .3 override 1 1 | .3 kill 1 2
    = !FindingReported
    = ContainerKilled grace_period_s=2
a kill with another period than was given
    .3 override 1 9 | .3 kill 1 30
    = FindingReported finding=lines_disagree
a kill that names another pod than its container's
    ~ spec c
    RUNS
    2 kuberuntime_container.go "Killing container with a grace period" {KILLED} gracePeriod=3
    = FindingReported finding=lines_disagree
a kill that is tried again; what comes with the first is of that one
    .3 kill 1 30 | .4 kill 1 30 | 40 kill 1 1 | 60 turn
    = ContainerKilled @0.3 grace_period_s=30
    = ContainerKilled @40 grace_period_s=1
a failed kill is decided again
    ~ spec c
    RUNS
    2 grace 1 30 | 32 unkilled 1 | 40 grace 1 30
    = ContainerKilled @2
    = ContainerKilled @40
a deleted pod kills its containers
    ~ spec c
    RUNS
    2 delete {A} | 2.1 grace 1 30
    = ContainerKilled container=c reason=pod_deleted <PodConfigChanged
an evicted pod kills its containers though the event comes later
    ~ spec c
    RUNS
    2.1 grace 1 30 | 2.2 warn a Evicted {LOW} | 2.3 event a Killing Stopping container c
    = ContainerKilled reason=evicted
a preStop hook delays the grace period, not the fact
    ~ spec c
    RUNS
    2 why 1 Container c definition changed | 2.1 hook 1
    2.2 event a Killing Container c definition changed | 20 grace 1 12
    = ContainerKilled @2 grace_period_s=12
a failure of an earlier instance is not the cause
    ~ spec {"containers":[{"name":"c","livenessProbe":{}}]}
    RUNS
    2 fails | 3 fails | 4 fails | 6 started 2 | 30 why 2 {PROBED}
    = ContainerKilled reason=liveness_probe <None
the line says why and not the event of a pod that is stopped as a whole
    ~ spec c
    RUNS
    2 why 1 {PROBED} | 2.1 event a Killing Stopping container c
    = ContainerKilled reason=liveness_probe message={PROBED}

each back-off is one fact
    1 backoff 1m20s | 1.1 worker 1m20s | 1.2 waits | 2 backoff 1m20s | 2.1 worker 1m20s | 2.2 waits
    = RestartBackedOff container=c back_off_s=80 lines=1,2,3
    = RestartBackedOff container=c back_off_s=80 lines=4,5,6
lines that show different back-offs are two facts
    1 backoff 20s | 1.1 worker 40s
    = RestartBackedOff back_off_s=20
    = RestartBackedOff back_off_s=40
back-offs at low verbosity come from the pod worker
    0 skipped 10s
    = RestartBackedOff pod=a back_off_s=10
they begin with a capital in 1.18 and before
    0 kuberuntime_manager.go Back-off 1m20s restarting failed container=c pod={A}
    = RestartBackedOff pod=a container=c back_off_s=80
a failed sync of another kind is no back-off
    0 pod_workers.go Error syncing pod {a} ("{A}"), skipping: failed to "CreatePodSandbox" for "x"
    = !RestartBackedOff
"""

test_scene = played_out(SCENES, WORDS)


def test_another_process_of_which_only_its_id_tells() -> None:
    """Its first relist shows what runs by then."""
    context = world()
    know_pod(context, "a", "u-a", spec={"containers": [{"name": "c"}]})
    told = 'kubelet.go "SyncLoop (PLEG): event for pod" pod="default/a" event={"ID":"u-a","Type":'
    rows = (("10:00:00.1", "x0"), ("10:00:05.1", "x1"))
    log = [klog(f"{at}00000", *f'{told}"ContainerStarted","Data":"{of}"}}'.split(" ", 1))
           for at, of in rows]  # fmt: skip
    for pid, named in (("4242", "c"), ("4343", None)):
        last = log[1].replace("4242", pid)
        started = bodies(ingest_lines(context, [log[0], last]), ContainerStarted)
        assert [body.container for body in started] == [None, named]


MEASURED = "pod_startup_latency_tracker.go"
_TIMES = (
    'firstStartedPulling="2026-11-21 10:00:02 +0000 UTC m=+3" '
    'lastFinishedPulling="2026-11-21 10:00:05 +0000 UTC m=+6"'
)
_NONE = "0001-01-01 00:00:00 +0000 UTC"
_SPANS = 'podStartE2EDuration="6.5s" totalImagesPullingTime="3s" totalInitContainerRuntime="0s"'


@pytest.mark.parametrize(
    ("created", "pulls", "pulling_ns"),
    [
        ("pod.CreationTimestamp", _TIMES, 3_000_000_000),
        ("podCreationTimestamp", _TIMES, 3_000_000_000),
        ("podCreationTimestamp", _TIMES.replace("2026-11-21 10:00:02", _NONE[:19]), 0),
        ("podCreationTimestamp", _SPANS, 3_000_000_000),
    ],
)
def test_a_start_that_only_its_measurement_shows(created: str, pulls: str, pulling_ns: int) -> None:
    """In the words of 1.26, of 1.27 on, of a pod without pulls, and of 1.34 on."""
    (body,) = bodies(ingest_lines(world("1.36.2"), _measured(created, pulls)), PodStarted)
    assert (body.created_ts_ns, body.running_ts_ns) == (at("10:00:00"), at("10:00:06"))
    assert (body.pulling_ns, body.own_ns) == (pulling_ns, 2_250_000_000)
    assert (body.pull_ended_ts_ns is None) == (pulls is _SPANS)


def _measured(created: str, pulls: str) -> str:
    return klog(
        "10:00:06.500000",
        MEASURED,
        f'"Observed pod startup duration" pod="shop/a" podStartSLOduration=2.25 {pulls} '
        f'{created}="2026-11-21 10:00:00 +0000 UTC" '
        'observedRunningTime="2026-11-21 11:00:06 +0100 CET m=+7"',
    )
