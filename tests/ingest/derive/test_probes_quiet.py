"""Transitions of logs that leave out successful ticks, or all ticks."""

from typing import Any

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.sources.items import Fact
from kubeledger.model.bodies.prober import ProbeTransitioned
from tests.ingest.derive.probe_words import WORDS
from tests.ingest.feeding import DATA, bodies
from tests.ingest.pod_world import container, ingest_lines, know_pod, values, world
from tests.ingest.scenes import IDS, played_out

_C = """~ version 1.36.2
    ~ ran c 1
    ~ ran c 2
    ~ probe"""
SIDECAR = '{"name":"c","readinessProbe":{},"restartPolicy":"Always"}'
READY = '"readinessProbe":{}'
LIVE = '"livenessProbe":{"failureThreshold":1},"readinessProbe":{}'
OTHER = (
    'kubelet.go "SyncLoop (PLEG): event for pod" pod="shop/x" '
    f'event={{"ID":"u","Type":"ContainerStarted","Data":"{IDS["3"]}"}}'
)
NOT_SAID = (
    "readiness results of pod shop/a changed without a container's name in {} line(s); which one "
    "is not known, so no transition is recorded"
)
_BOTH = """~ version 1.36.2
    ~ ran a 1
    ~ ran b 3
    ~ spec"""


def _two(probes: str) -> str:
    return f'{{"containers":[{{"name":"a",{probes}}},{{"name":"b",{probes}}}]}}'


SCENES = f"""
the first line is the initial value and the next are changes
    {_C} readiness {{}}
    BEGUN
    0 started 1 | 1 unready | 2 ready | 30 unready
    = ProbeTransitioned <None container_id=1 from_result=failure to_result=success inferred=False
    = ProbeTransitioned <None container_id=1 from_result=success run=None threshold=None
    = !FindingReported
not ready of a new container is no change
    {_C} readiness {{}}
    BEGUN
    0 started 1 | 1 unready | 2 ready | 9 died 1 | 9 started 2 | 10 unready | 11 ready
    = ProbeTransitioned container_id=1 from_result=failure to_result=success
    = ProbeTransitioned container_id=2 from_result=failure to_result=success
not ready of a container that ended is a change, and its successor begins anew
    {_C} readiness {{}}
    BEGUN
    0 started 1 | 1 unready | 2 ready | 9 died 1 | 10 unready | 20 started 2 | 21 unready
    = ProbeTransitioned container_id=1 to_result=success
    = ProbeTransitioned container_id=1 to_result=failure
startup fails after its initial value: both lines have the same words
    {_C} startup {{"failureThreshold":2}}
    BEGUN
    0 started 1 | 1 unbegun | 4.1 unbegun | 20 started 2 | 21 unbegun | 24.1 unbegun
    = ProbeTransitioned container_id=1 from_result=unknown run=None inferred=False
    = ProbeTransitioned container_id=2 from_result=unknown run=None inferred=False
so does startup with its ticks
    {_C} startup {{"failureThreshold":2}}
    BEGUN
    0 started 1 | 1 unbegun | 2 No Startup c | 4 No Startup c | 4.1 unbegun
    20 started 2 | 21 unbegun | 22 No Startup c | 24 No Startup c | 24.1 unbegun
    = ProbeTransitioned container_id=1 from_result=unknown run=2 inferred=False
    = ProbeTransitioned container_id=2 from_result=unknown run=2 inferred=False
startup of a successor of what had started is no change, whether its ID is known or not
    {_C} startup {{}}
    BEGUN
    0 started 1 | 1 unbegun | 2 begins | 9 unbegun | 12 begins
    = ProbeTransitioned from_result=unknown to_result=success
    = ProbeTransitioned from_result=unknown to_result=success
only a container with that probe is meant
    ~ spec {{"containers":[{{"name":"b"}},{{"name":"c","readinessProbe":{{"exec":{{}}}}}}]}}
    BEGUN
    1 unready | 2 ready
    = ProbeTransitioned container=c
of init containers only a sidecar is meant
    ~ spec {{"initContainers":[{{"name":"b","readinessProbe":{{}}}},{SIDECAR}]}}
    BEGUN
    1 unready | 2 ready
    = ProbeTransitioned container=c
of two containers the one that can change is meant; of the first lines nobody can say
    {_BOTH} {_two(LIVE)}
    BEGUN
    0 started 1 | 0 started 3 | 1 unready | 1 unready | 2 ready | 3 ready
    10 No Readiness b | 20 No Readiness b | 30 No Readiness b | 30.1 unready | 40 ready
    = ProbeTransitioned container=b from_result=success to_result=failure run=3
    = ProbeTransitioned container=b from_result=failure to_result=success run=None
    = FindingReported finding=probe_not_attributed lines=7,8 message={NOT_SAID.format(2)}
a line may be the initial value of one or a change of the other: nobody is named
    {_BOTH} {_two(READY)}
    ~ ran a 2
    BEGUN
    0 started 1 | 0 started 3 | 1 unready | 1 unready | 2 ready | 2 ready
    9 died 1 | 9 started 2 | 10 unready | 11 unready | 12 ready
    = !ProbeTransitioned
    = FindingReported message={NOT_SAID.format(5)}
liveness of old logs leads to kills without ticks
    ~ version 1.20.2
    ~ ran c 1
    ~ ran c 2
    ~ probe liveness {{}}
    -60 loop | 0 started 1 | 20 Unhealthy | 20.001 why 1 {{PROBED}}
    30 started 2 | 50 Unhealthy | 50.001 why 2 {{PROBED}}
    = ProbeTransitioned container_id=1 from_result=success to_result=failure run=None
    = ProbeTransitioned container_id=2 from_result=success threshold=None inferred=False
    = ContainerKilled <ProbeTransitioned
    = ContainerKilled <ProbeTransitioned
failures around an unlogged success are no change
    {_C} liveness {{"failureThreshold":3}}
    BEGUN
    0 started 1 | 1 No Liveness c | 11 No Liveness c | 31 No Liveness c | 41 No Liveness c
    = !ProbeTransitioned
until the line of the change comes
    {_C} liveness {{"failureThreshold":3}}
    BEGUN
    0 started 1 | 1 No Liveness c | 11 No Liveness c | 31 No Liveness c | 41 No Liveness c
    51 No Liveness c | 51.1 unhealthy
    = ProbeTransitioned run=3 inferred=False
without the PLEG a failed container may have a successor: not ready may be its first
    ~ version 1.36.2
    ~ spec {{"containers":[{{"name":"c","livenessProbe":{{}},"readinessProbe":{{}}}}]}}
    -60 loop | 1 unready | 2 ready | 30 unhealthy | 32 unready | 40 ready | 55 unhealthy
    = ProbeTransitioned probe_type=readiness from_result=failure
    = ProbeTransitioned probe_type=liveness from_result=success
    = ProbeTransitioned probe_type=readiness from_result=failure
    = ProbeTransitioned probe_type=liveness from_result=success
    = FindingReported finding=probe_not_attributed
a log that begins late with the PLEG's events: what did not start in it is older
    {_C} readiness {{}}
    0 other | 1 unready
    = ProbeTransitioned from_result=success to_result=failure
    = !FindingReported
a log that begins late without them
    {_C} readiness {{}}
    1 unready
    = !ProbeTransitioned
    = FindingReported finding=probe_not_attributed
a container ID without a name may be the successor of one that died
    ~ version 1.36.2
    ~ ran c 1
    ~ ran d 3
    ~ spec {{"containers":[{{"name":"c","readinessProbe":{{}}}},{{"name":"d"}}]}}
    BEGUN
    0 started 1 | 0 started 3 | 1 unready | 2 ready | 9 died 1 | 12 started 2
    13 unready | 14 ready
    = ProbeTransitioned container_id=1 to_result=success
    = ProbeTransitioned container_id=None to_result=success
    = FindingReported finding=probe_not_attributed
without a pod spec the newest startup result may be the initial value
    ~ version 1.36.2
    -60 loop | 1 unbegun
    = !ProbeTransitioned
    = FindingReported finding=startup_not_passed namespace=shop pod=a lines=2
or it is told that the pod has begun
    ~ version 1.36.2
    -60 loop | 1 unbegun | 2 begins
    = !ProbeTransitioned
    = FindingReported finding=probe_not_attributed namespace=shop pod=a lines=3
without a pod spec only sure changes are counted: not ready may be an initial value
    ~ version 1.36.2
    -60 loop | 1 unready | 2 ready
    = !ProbeTransitioned
    = FindingReported message={NOT_SAID.format(1)}
"""

test_scene = played_out(SCENES, {**WORDS, "other": OTHER})


def _changes(facts: list[Fact], *fields: str) -> list[tuple[Any, ...]]:
    return [values(body, *fields) for body in bodies(facts, ProbeTransitioned)]


def test_recorded_startup_probe_without_its_ticks() -> None:
    context = world("1.36.2")
    spec = container("app", startup={"failureThreshold": 4, "exec": {}})
    know_pod(context, "startup-never-node-b", "47c6fba2e82b7402f7219b7089c7f992", spec=spec)
    lines = (DATA / "kubelet/startup-1.36.2.log").read_text().splitlines()
    whole = ingest_lines(context, lines)
    quiet = ingest_lines(
        BundleContext(node="n", kubelet_version="1.36.2", pods=context.pods),
        [line for line in lines if " prober.go:" not in line],
    )
    fields = ("container_id", "from_result", "to_result", "inferred")
    assert _changes(quiet, *fields) == _changes(whole, *fields)
    assert _changes(quiet, "run", "threshold") == [(None, None)] * 4
