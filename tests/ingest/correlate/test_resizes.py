"""In-place resizes, and that one which waits is no refusal of its pod."""

from tests.ingest.scenes import played_out

_POD = 'pod="shop/a"'
_ASKED = r"\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{\"cpu\":\"{2}\"}}}]"
WORDS = {
    "in": "0 add {A} | .2 sync {A}",
    "denied": 'allocation_manager.go "Pod admission denied" podUID="{a}" pod="shop/a" '
    'reason="{1}" message="used: {2}"',
    "unfit": f'allocation_manager.go "Resize cannot be accommodated" {_POD} reason="{{1}}" '
    'message="used: {2}"',
    "waits": f'allocation_manager.go "Pod resize is deferred; will reevaluate later" {_POD}',
    "given": f'allocation_manager.go "Pod resize successfully allocated" {_POD}',
    "never": f'allocation_manager.go "Pod resize is infeasible" {_POD}',
    "failed": f'kuberuntime_manager.go "Allocated pod resize is not currently feasible" {_POD} '
    'err="{*}"',
    "undone": r'pod_workers.go "Error syncing pod, skipping" err="failed to \"ResizePodInPlace\"'
    r' for \"a_shop({a})\" with ResizePodInPlaceError: \"{*}\"" pod="shop/a" podUID="{a}"',
    "asked": f'event.go "Event occurred" object="shop/a" kind="Pod" type="Normal" reason="{{1}}" '
    f'message="Pod resize: {{{_ASKED}, \\"error\\":\\"{{*}}\\"}}"',
    "held": 'event.go "Event occurred" object="shop/a" kind="Pod" type="Warning" '
    f'reason="ResizeDeferred" message="Pod resize {{1}}: {{{_ASKED}}}"',
    "refused": 'event.go "Event occurred" object="shop/a" kind="Pod" type="Warning" '
    'reason="{1}" message="used: {2}"',
    "old": 'kubelet.go "Resize is not feasible as request exceeds allocatable node resources" '
    'pod="a"',
    "patch": f'status_manager.go "Patch status for pod" {_POD} podUID="{{a}}" patch="{{*}}"',
}
_DONE = r"{\"status\":{\"conditions\":[{\"$patch\":\"delete\",\"type\":\"PodResizeInProgress\"}]}}"
_WAITING = (
    '{"phase":"Running","conditions":[{"type":"PodResizePending","status":"True",'
    '"reason":"Deferred","message":"full","lastTransitionTime":"2026-11-21T10:00:%02dZ"}]}'
)
_GOING = '{"phase":"Running","resize":"InProgress"}'

SCENES = rf"""
a resize that is given, and done
    in
    5 given | 5.1 asked ResizeStarted 2 | 9 patch {_DONE}
    = PodResized @5 outcome=allocated lines=3,4
    = PodResized @9 outcome=actuated
each that is given is one of its own
    in
    5 given | 9 given
    = PodResized @5
    = PodResized @9
one that waits is told once, however often the kubelet looks, and is no refusal
    in
    5 denied OutOfcpu 19 | 5 unfit OutOfcpu 19 | 5 waits | 5.1 held Deferred 2
    9 denied OutOfcpu 18 | 9 unfit OutOfcpu 18 | 9 waits
    = !PodRejected
    = PodAdmitted
    = PodResized outcome=deferred reason=OutOfcpu message=used: 19 lines=4,5,6
since 1.36 its event says what refused it
    in
    5 held OutOfcpu 2
    = PodResized outcome=deferred reason=OutOfcpu
one that waits before a sign of its pod's admission is no refusal either
    0 add {{A}} | .1 denied OutOfcpu 19 | .1 unfit OutOfcpu 19 | 9 sync {{A}}
    = !PodRejected
    = PodAdmitted @9
    = PodResized outcome=deferred
a pod that runs, and that an event says to be refused: no refused resize leaves one
    in
    5 denied OutOfcpu 19 | 5.1 refused OutOfcpu 19
    = PodRejected @5.1 reason=OutOfcpu
a pod that is refused is refused
    0 add {{A}} | .1 denied OutOfcpu 19
    = PodRejected reason=OutOfcpu
one that can never be
    in
    5 never | 5.1 asked ResizeInfeasible 90 beyond
    = PodResized outcome=infeasible message=beyond
one that was given and cannot be done now
    in
    5 given | 6 failed below its use | 7 failed below its use
    = PodResized @5 reason=None
    = PodResized @6 outcome=allocated reason=Error message=below its use
one that the runtime does not do, told by each sync
    in
    5 given | 6 undone busy | 9 undone busy
    = PodResized @5 reason=None
    = PodResized @6 outcome=allocated reason=Error message=busy
words of 1.27 name no namespace
    ~ spec c
    in
    5 old
    = PodResized outcome=infeasible pod=a
lists tell what no line does
    in
    5 list a {_WAITING % 4} | 8 list a {_GOING} | 9 list a {_GOING}
    = PodResized @5 outcome=deferred message=full
    = PodResized @8 outcome=allocated
the file of what is actuated shows one that another has followed, once it changed to that
    in
    1 actuated a {{"limits":{{"cpu":"2"}}}} | 5 given | 5.1 asked ResizeStarted 2
    6 given | 6.1 asked ResizeStarted 3 | 7 actuated a {{"limits":{{"cpu":"2"}}}}
    8 given | 8.1 asked ResizeStarted 2 | 9 actuated a {{"limits":{{"cpu":"3"}}}}
    10 actuated a {{"limits":{{"cpu":"1"}}}} | 11 actuated a {{"limits":{{"cpu":"2"}}}}
    = PodResized @5 outcome=allocated
    = PodResized @6 outcome=allocated
    = PodResized @8 outcome=allocated
    = PodResized @9 outcome=actuated
    = PodResized @11 outcome=actuated
a list that is older than the line before it
    in
    5 given | 9 list a {_WAITING % 4}
    = PodResized outcome=allocated
a status without a resize ends none of a pod that goes
    in
    5 given | 6 delete {{A}} | 9 patch {_DONE}
    = PodResized outcome=allocated
a container that is killed for it
    .1 why 1 Container c resize requires restart | .3 grace 1 30
    = ContainerKilled reason=resized
"""

test_scenes = played_out(SCENES, WORDS)
