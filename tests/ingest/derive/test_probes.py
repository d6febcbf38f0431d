"""Ticks as the log holds them, and the transitions that follow or are logged."""

from tests.ingest.derive.probe_words import WORDS
from tests.ingest.scenes import played_out

_TICKS = (
    ("1 ticked Liveness succeeded", "success", None),
    ("1 ticked Liveness succeeded with a warning: moved", "warning", "moved"),
    ("1 ticked Liveness failed (failure): no: such file", "failure", "no: such file"),
    ("1 ticked Liveness failed (failure):\x20", "failure", ""),
    ("1 ticked Liveness failed (unknown): ?", "unknown", "?"),
    ("1 ticked Liveness errored: rpc error: gone", "error", "rpc error: gone"),
    ("1 Yes Liveness", "success", None),
    (r'1 tick Probe failed" probeResult="failure" output="a \"b\""', "failure", 'a "b"'),
    ('1 tick Probe failed" probeResult="failure" output=""', "failure", ""),
    ("1 half", "failure", None),
    ('1 tick Probe failed" probeResult="failure"', "failure", None),
    ('1 tick Probe failed" probeResult="success"', "success", None),
    ('1 tick Probe failed" probeResult="other"', "unknown", None),
    ('1 tick Probe errored" probeResult="unknown" err="gone"', "error", "gone"),
    ('1 tick Probe succeeded with a warning" output="moved"', "warning", "moved"),
    ('1 tick Probe unknown without error" probeResult="unknown"', "unknown", None),
    ('1 tick Unsupported probe result" probeResult="x"', "unknown", None),
)
TICKS = "\n".join(
    f"""one tick a line: {line}
    {line}
    = ProbeExecuted namespace=shop pod=a pod_uid=a container=c result={result} output={output}"""
    for line, result, output in _TICKS
)
_HANDLERS = {"httpGet": "http", "tcpSocket": "tcp", "grpc": "grpc", "exec": "exec"}
HANDLERS = "\n".join(
    f"""the handler in the pod spec: {handler}
    ~ probe readiness {{"{key}":{{}}}}
    1 yes
    = ProbeExecuted handler={handler}"""
    for key, handler in _HANDLERS.items()
)

SCENES = rf"""{TICKS}
{HANDLERS}
without a spec the line before shows a command
    1 exec | 1 yes | 2 yes
    = ProbeExecuted handler=exec
    = ProbeExecuted handler=None
a probe has none of another's results
    -60 loop | -59 Add api | 1 odd
    = FindingReported finding=lines_disagree
an HTTP probe does not fail with a code that is a success
    ~ probe readiness {{"httpGet":{{}}}}
    1 ticked Readiness failed (failure): HTTP probe failed with statuscode: 404
    2 ticked Readiness failed (failure): HTTP probe failed with statuscode: 202
    = FindingReported @2 finding=lines_disagree
what a command says is its own
    ~ probe readiness {{"exec":{{}}}}
    2 ticked Readiness failed (failure): HTTP probe failed with statuscode: 202
    = !FindingReported
readiness in old logs is inferred with its thresholds; an error neither counts nor breaks a run
    ~ version 1.20.2
    ~ probe readiness {{"failureThreshold":2,"successThreshold":2}}
    -60 loop | 1 yes | 2 yes | 3 no Readiness | 4 ticked Readiness errored: y | 5 no Readiness
    = ProbeTransitioned @2 <ProbeExecuted from_result=failure to_result=success run=2 threshold=2
    = ProbeTransitioned @5 <ProbeExecuted to_result=failure run=2 threshold=2 inferred=True
defaults are three failures and one success
    ~ version 1.20.2
    ~ probe readiness {{}}
    -60 loop | 1 yes | 2 no Readiness | 3 no Readiness | 4 no Readiness
    = ProbeTransitioned run=1 threshold=1
    = ProbeTransitioned run=3 threshold=3
a warning is a success
    ~ version 1.20.2
    ~ probe readiness {{}}
    -60 loop | 1 ticked Readiness succeeded with a warning: x
    = ProbeTransitioned to_result=success
the run survives a new container and the result does not
    ~ version 1.20.2
    ~ probe liveness {{"failureThreshold":3}}
    ~ ran c 2 1 {{"restartCount":1}}
    .5 started 9 | 1 no Liveness | 2 no Liveness | 3.5 started 2 | 5 no Liveness
    = ProbeTransitioned container_id=2 from_result=success run=3
a late relist: the container that it shows last has died, and lists show the one that runs
    ~ probe liveness {{"failureThreshold":3}}
    ~ ran c 1 {{"state":{{"running":{{"startedAt":"2026-11-21T10:00:00Z"}}}}}}
    ~ ran c 2 1 {{"state":{{"running":{{"startedAt":"2026-11-21T10:00:03Z"}}}}}}
    .5 started 1 | 1 No Liveness c | 4.5 died 1 | 5 No Liveness c | 60 started 2
    = ProbeExecuted @1 container_id=1
    = ProbeExecuted @5 container_id=2
a worker on hold that probes again has a new container
    ~ version 1.20.2
    ~ probe liveness {{}}
    1 no Liveness | 2 no Liveness | 3 no Liveness | 4 no Liveness | 5 no Liveness | 6 no Liveness
    = ProbeTransitioned from_result=success to_result=failure run=3
    = ProbeTransitioned from_result=success to_result=failure run=3
a logged failure is one fact with both lines
    ~ version 1.20.2
    ~ probe liveness {{}}
    1 no Liveness | 2 no Liveness | 3 no Liveness | 3.0002 Unhealthy
    = ProbeTransitioned inferred=False lines=3,4
structured readiness waits for its line
    ~ version 1.36.2
    ~ probe readiness {{}}
    1 Yes Readiness | 1.0001 ready | 2 No Readiness c | 3 No Readiness c | 4 No Readiness c
    6.0001 unready
    = ProbeTransitioned inferred=False to_result=success lines=1,2
    = ProbeTransitioned inferred=False to_result=failure lines=5,6
a change whose line never comes is inferred
    ~ version 1.36.2
    ~ probe readiness {{}}
    -60 loop | 1 Yes Readiness | 40 Yes Readiness
    = ProbeTransitioned inferred=True
a line is of a change of its time, not of the oldest one that has none
    ~ version 1.36.2
    ~ probe readiness {{"failureThreshold":1}}
    -60 loop | 1 Yes Readiness | 20 No Readiness c | 20.0001 unready
    40 Yes Readiness | 40.0001 ready | 59 Yes Readiness
    = ProbeTransitioned to_result=success inferred=True
    = ProbeTransitioned to_result=failure inferred=False
    = ProbeTransitioned to_result=success inferred=False
a slow probe leaves no gap in which a success was not logged
    ~ version 1.36.2
    ~ probe liveness {{"failureThreshold":2,"periodSeconds":5,"timeoutSeconds":30}}
    1 No Liveness c | 31 No Liveness c
    = ProbeTransitioned run=2 inferred=True
a gap of two periods hides a success that was not logged
    ~ version 1.36.2
    ~ probe liveness {{"failureThreshold":2}}
    1 No Liveness c | 21 No Liveness c
    = !ProbeTransitioned
below the threshold nothing changes
    ~ version 1.20.2
    ~ probe readiness {{"successThreshold":3,"failureThreshold":2}}
    -60 loop | 1 yes | 2 yes | 3 no Readiness | 4 yes | 5 yes | 6 yes
    = ProbeTransitioned @6 to_result=success run=3
a kill ends the run whatever the ticks show: the next container's ticks begin anew
    ~ version 1.20.2
    ~ probe startup {{"failureThreshold":3}}
    ~ ran c 2 1 {{"restartCount":1}}
    -60 loop | .5 started 1 | 1 no Startup | 2 no Startup
    3 why 1 Container c failed startup probe, will be restarted
    5.5 died 1 | 5.5 started 2 | 6 no Startup | 7 no Startup | 8 no Startup
    = ProbeTransitioned @8 <ProbeExecuted run=3 to_result=failure
initial values are no transitions
    ~ version 1.36.2
    ~ probe readiness {{}}
    1.0001 unready | 1.0002 unbegun | 2 Yes Readiness | 2.0001 ready
    = ProbeTransitioned from_result=failure to_result=success inferred=False
without a pod spec ticks alone decide nothing
    ~ version 1.36.2
    1 Yes Readiness | 2 Yes Readiness
    = !ProbeTransitioned
without a pod spec only logged changes are recorded
    ~ version 1.36.2
    1 Yes Readiness | 2 Yes Readiness | 2.0001 ready
    = ProbeTransitioned container=c run=2 threshold=None inferred=False
a change whose tick is lost is dated to its line: the last tick is a period older
    ~ version 1.36.2
    1 No Liveness c | 11 No Liveness c | 21.0001 unhealthy | 31 No Liveness c
    = ProbeTransitioned @21.0001 <None container=c run=None threshold=None inferred=False lines=3
a line soon after a tick is of that tick: the sync loop may be late
    ~ version 1.36.2
    1 No Liveness c | 11 No Liveness c | 15.0001 unhealthy
    = ProbeTransitioned @11 <ProbeExecuted run=2 inferred=False
half a period is half of the shortest time between two ticks
    ~ version 1.36.2
    1 No Liveness c | 3 No Liveness c | 5.0001 unhealthy
    = ProbeTransitioned <None run=None
with thresholds a failure is recorded though the tick is lost
    ~ version 1.36.2
    ~ probe liveness {{"failureThreshold":3}}
    -60 loop | 0 Yes Liveness | 1 No Liveness c | 11 No Liveness c | 21.0001 unhealthy
    = ProbeTransitioned <None from_result=success run=None inferred=False lines=5
with thresholds a failure is recorded though the tick between is lost
    ~ version 1.36.2
    ~ probe liveness {{"failureThreshold":3}}
    -60 loop | 0 Yes Liveness | 1 No Liveness c | 21 No Liveness c | 21.0001 unhealthy
    = ProbeTransitioned <ProbeExecuted from_result=success run=None inferred=False lines=4,5
with thresholds a failure is recorded though the first tick is lost
    ~ version 1.36.2
    ~ probe liveness {{"failureThreshold":3}}
    -60 loop | 0 Yes Liveness | 11 No Liveness c | 21 No Liveness c | 21.0001 unhealthy
    = ProbeTransitioned <ProbeExecuted from_result=success run=None inferred=False lines=4,5
with thresholds a failure is recorded though all ticks are lost
    ~ version 1.36.2
    ~ probe liveness {{"failureThreshold":3}}
    -60 loop | 0 Yes Liveness | 21.0001 unhealthy
    = ProbeTransitioned <None from_result=success run=None inferred=False lines=3
after a lost tick the next container begins anew, as after one that is in the log
    ~ version 1.36.2
    ~ probe liveness {{}}
    -60 loop | 0 Yes Liveness | 1 No Liveness c | 11 No Liveness c | 21.0001 unhealthy
    31 No Liveness c | 41 No Liveness c | 51 No Liveness c
    = ProbeTransitioned from_result=success run=None
    = ProbeTransitioned from_result=success run=3
an errored tick decides nothing, so the tick that decided is not in the log
    ~ version 1.36.2
    1 No Liveness c | 11 Error Liveness | 11.0001 unhealthy
    = ProbeTransitioned <None run=None
of two containers the one that just failed is meant
    ~ version 1.36.2
    1 No Liveness b | 11 No Liveness c | 11.0001 unhealthy
    = ProbeTransitioned container=c run=1
of two containers with lost ticks none is named, and a finding says so
    ~ version 1.36.2
    1 No Liveness b | 2 No Liveness c | 11.0001 unhealthy
    = !ProbeTransitioned
    = FindingReported finding=probe_not_attributed
a container found not running fails without a threshold
    ~ version 1.36.2
    ~ probe readiness {{}}
    1 Yes Readiness | 1.0001 ready | 4 stopped | 4.0001 unready
    = ProbeTransitioned to_result=success
    = ProbeTransitioned from_result=success run=None threshold=None inferred=False
a kubelet restart makes all workers new
    ~ version 1.20.2
    ~ probe readiness {{}}
    -60 loop | 1 yes | 3 loop | 5 yes
    = ProbeTransitioned from_result=failure
    = ProbeTransitioned from_result=failure
from 1.35 on nothing is cached for what ran before the kubelet
    ~ version 1.36.2
    ~ spec {{"containers":[{{"name":"c","readinessProbe":{{}},"livenessProbe":{{}}}}]}}
    ~ ran c 1 {{"restartCount":0,"state":{{"running":{{"startedAt":"2026-11-21T09:00:00Z"}}}}}}
    0 loop | 2 Yes Liveness | 3 Yes Readiness | 3.0001 ready
    = ProbeTransitioned probe_type=readiness from_result=unknown container_id=1
a log that begins late does not guess what was cached
    ~ version 1.20.2
    ~ probe readiness {{}}
    ~ ran c 1 {{"state":{{"running":{{"startedAt":"2026-11-21T09:00:00Z"}}}}}}
    1 yes | 2 yes | 3 no Readiness | 4 no Readiness | 5 no Readiness
    = ProbeTransitioned from_result=success to_result=failure
a status shows only the second in which a container started: a tick in it may be of the one before
    ~ version 1.20.2
    ~ probe liveness {{}}
    ~ ran c 1 {{"state":{{"running":{{"startedAt":"2026-11-21T10:00:02Z"}}}}}}
    1 no Liveness | 2.9 no Liveness | 3 no Liveness
    = ProbeExecuted container_id=None
    = ProbeExecuted container_id=None
    = ProbeExecuted container_id=1
"""

test_scene = played_out(SCENES, WORDS)
