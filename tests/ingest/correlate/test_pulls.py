"""Pulls of images: events and sync errors of all versions tell each decision once."""

import json

from tests.ingest.scenes import played_out

_POD = 'object="shop/a" fieldPath="spec.containers{c}" kind="Pod" apiVersion="v1"'
_SYNC = (
    'pod_workers.go "Error syncing pod, skipping" err="failed to \\"StartContainer\\" for \\"c\\"'
)
_NOT_FOUND = "rpc error: code = NotFound desc = x/y:1: not found"
WORDS = {
    "in": "0 add {A}",
    "pulls": f'event.go "Event occurred" {_POD} type="Normal" reason="Pulling" '
    'message="Pulling image \\"{1}\\""',
    "fails": f'event.go "Event occurred" {_POD} type="Warning" reason="Failed" '
    'message="Failed to pull image \\"{1}\\": {*}"',
    "holds": f'event.go "Event occurred" {_POD} type="Normal" reason="BackOff" '
    'message="Back-off pulling image \\"{1}\\""',
    "pulled": f'event.go "Event occurred" {_POD} type="Normal" reason="Pulled" '
    'message="Successfully pulled image \\"{1}\\"{*}"',
    "there": f'event.go "Event occurred" {_POD} type="Normal" reason="Pulled" '
    'message="Container image \\"{1}\\" already present on machine{*}"',
    "refuses": f'event.go "Event occurred" {_POD} type="Warning" reason="ErrImageNeverPull" '
    'message="Container image \\"{1}\\" is not present with pull policy of Never"',
    "failing": f'{_SYNC} with {{1}}: \\"{{*}}\\"" pod="shop/a" podUID="{{a}}"',
    "held": f'{_SYNC} with ImagePullBackOff: \\"Back-off pulling image \\\\\\"{{1}}\\\\\\"{{*}}\\""'
    ' pod="shop/a" podUID="{a}"',
    "oldpulls": 'event.go Event(v1.ObjectReference{Kind:"Pod", Namespace:"shop", Name:"a", '
    'UID:"{a}", APIVersion:"v1", ResourceVersion:"1", FieldPath:"spec.containers{c}"}): '
    "type: 'Normal' reason: 'Pulling' Pulling image \"{1}\"",
    "oldnever": 'event.go "Event occurred" object="shop/a" kind="Pod" apiVersion="v1" '
    'type="Warning" reason="ErrImageNeverPull" message="Container image \\"{1}\\" is not present '
    'with pull policy of Never"',
    "oldsync": 'pod_workers.go Error syncing pod {a} ("{A}"), skipping: failed to '
    '"StartContainer" for "{1}" with {2}: "{*}"',
}


def waits(reason: str, message: str = "", container: str = "c") -> str:
    waiting = {"reason": reason, "message": message}
    return json.dumps(
        {
            "startTime": "2026-03-01T00:00:00Z",
            "containerStatuses": [{"name": container, "state": {"waiting": waiting}}],
        }
    )


_OF_C = '~ spec {"containers": [{"name": "c", "image": "x/y:1"}]}'
_FAILED = waits("ErrImagePull", "not found")
_HELD = waits("ImagePullBackOff", 'Back-off pulling image "x/y:1"')
_WHY = waits("ImagePullBackOff", 'Back-off pulling image "x/y:1": ErrImagePull: not found')

SCENES = f"""
a pull that fails, and is held back
    in
    1 pulls x/y:1 | 2 fails x/y:1 {_NOT_FOUND} | 2.1 failing ErrImagePull {_NOT_FOUND}
    3 held x/y:1 | 3.1 holds x/y:1
    = PullDecided @1 decision=pull image=x/y:1 container=c
    = PullDecided @3 decision=back_off image=x/y:1 container=c lines=5,6
    = PullEnded @2 outcome=failed error={_NOT_FOUND} reason=ErrImagePull <PullDecided lines=3,4
the cause of a back-off is no other image
    in
    3 held x/y:1 : ErrImagePull: rpc error
    = PullDecided decision=back_off image=x/y:1
a sync error alone, of an image that only the pod's list names
    ~ spec {{"containers": [{{"name": "c", "image": "x/y:1"}}]}}
    in
    2.1 failing ErrImagePull not found
    = PullEnded @2.1 outcome=failed error=not found image=x/y:1
a sync error that comes before the event of its pull's end
    in
    1 pulls x/y:1 | 2 failing ErrImagePull not found | 2.1 fails x/y:1 not found
    = PullDecided @1
    = PullEnded @2 image=x/y:1 <PullDecided
of a pod that mounts images it may be any of them
    ~ spec {{"containers": [{{"name": "c", "image": "x/y:1"}}], "volumes": [{{"image": {{}}}}]}}
    in
    2.1 failing ErrImagePull not found
    = PullEnded @2.1 image=None
an event that comes late is about the same, one that comes again is not
    in
    1 failing ErrImagePull not found | 21 fails x/y:1 not found | 31 fails x/y:1 not found
    = PullEnded @1 reason=ErrImagePull
    = PullEnded @31 error=not found
a pull that was refused
    in
    2 fails x/y:1 pull QPS exceeded | 2 failing ErrImagePull pull QPS exceeded
    = PullEnded outcome=refused
reasons of their own
    in
    2 fails x/y:1 RegistryUnavailable: down
    2 failing RegistryUnavailable image pull failed for x/y:1 because the registry is unavailable
    = PullEnded outcome=failed reason=RegistryUnavailable error=RegistryUnavailable: down
a pull that waited for others
    in
    1 pulls x/y:1 | 9 pulled x/y:1  in 2.5s (8s including waiting). Image size: 1024 bytes.
    = PullDecided decision=pull
    = PullEnded outcome=pulled pull_ms=2500 whole_ms=8000 size_bytes=1024 <PullDecided
before 1.26 there is the whole time alone
    in
    9 pulled x/y:1  in 1m2.345678s
    = PullEnded outcome=pulled pull_ms=None whole_ms=62345 size_bytes=None
before 1.18 no time
    in
    9 pulled x/y:1
    = PullEnded outcome=pulled whole_ms=None
an image that is there is a decision where the kubelet asks who may use it
    in
    1 there x/y:1 | 5 there x/y:1  and can be accessed by the pod
    = PullDecided @5 decision=present
policy Never
    in
    1 refuses x/y:1
    1 failing ErrImageNeverPull Container image x/y:1 is not present with pull policy of Never
    = PullDecided decision=never image=x/y:1 lines=2,3
another process decides anew
    in
    1 failing ErrImagePull not found | 1.5 loop | 2 fails x/y:1 not found
    = PullEnded @1
    = PullEnded @2
text of 1.19
    in
    1 oldpulls x/y:1
    = PullDecided decision=pull image=x/y:1 container=c
events of 1.20 name no container
    ~ spec {{"containers": [{{"name": "c", "image": "x/y:1"}}, {{"name": "d", "image": "x/y:1"}}]}}
    in
    1 oldsync c ErrImageNeverPull Container image x/y:1 is not present with pull policy of Never
    1 oldnever x/y:1 | 1 oldnever x/y:1
    1 oldsync d ErrImageNeverPull Container image x/y:1 is not present with pull policy of Never
    = PullDecided decision=never container=c lines=2,3
    = PullDecided decision=never container=d lines=4,5
an event of the API server tells what no line does, once
    in
    5 api a Pulling Pulling image "x/y:1" | 5 api a Pulling Pulling image "x/y:1"
    = PullDecided @5 decision=pull
and is evidence of a line
    in
    5 api a Pulling Pulling image "x/y:1" | 5.5 pulls x/y:1
    = PullDecided @5.5 decision=pull
a status shows what nothing else tells, by its time, and once while it stays
    {_OF_C}
    in
    90 list a {_FAILED} | 95 list a {_FAILED}
    = PullEnded @90 outcome=failed error=not found reason=ErrImagePull image=x/y:1 container=c
a status that shows why the last pull failed proves that, too
    {_OF_C}
    in
    90 list a {_WHY}
    = PullDecided @90 decision=back_off image=x/y:1
    = PullEnded @90 outcome=failed error=not found reason=ErrImagePull
a cause that the list before showed is that failure
    {_OF_C}
    in
    90 list a {_FAILED} | 95 list a {_WHY} | 99 list a {_FAILED} | 105 list a {_WHY}
    = PullEnded @90 error=not found
    = PullEnded @99 error=not found
    = PullDecided @95 decision=back_off
    = PullDecided @105 decision=back_off
a status of a decision that the log tells, or may tell, adds none
    {_OF_C}
    in
    3 held x/y:1 | 50 list a {_HELD} | 80 list a {_FAILED} | 80.5 list a {_HELD}
    = PullDecided @3 decision=back_off
    = PullEnded @80
    = PullDecided @80.5 decision=back_off
a status that waits for something else, or has no time
    {_OF_C}
    in
    5 list a {waits("ContainerCreating")}
    6 list a {{"startTime": "soon", "containerStatuses": null}}
    = !PullDecided
    = !PullEnded
other events of these reasons, and other sync errors
    in
    1 event a Pulled Something else | 2 event a BackOff Back-off restarting failed container
    3 failing CrashLoopBackOff back-off 10s restarting failed container
    = !PullDecided
    = !PullEnded
"""  # fmt: skip

test_scene = played_out(SCENES, WORDS)
