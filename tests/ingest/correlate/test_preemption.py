"""Victims, whom they made room for, and what came of it."""

from tests.ingest.scenes import A, B, played_out

CRITICAL = "crit_kube-system(cccccccc-0000-4000-8000-00000000000c)"
SIGN = "Preempted in order to admit critical pod"
MISSING = (
    "preemption: error finding a set of pods to preempt: no set of running pods found to reclaim"
    " resources: [(res: cpu, q: 1470), ]"
)
RECOVERY = "Unexpected error while attempting to recover from admission failure: "
_FAILED = '"Failed to admit pod, unexpected error while attempting to recover from admission'


def _dump(name: str, uid: str, generate: str = "", link: str = "") -> str:
    return (
        f"&Pod{{ObjectMeta:{{{name} {generate} shop {link} {uid} 467 0 2026-11-21 03:00:17"
        " +0000 UTC <nil> <nil> map[] map[] [] []  []},Spec:PodSpec{},Status:PodStatus{},}"
    )


_ATTEMPT = (
    "preemption.go preemption: attempting to evict pods [{0}], in order to free up resources:"
)
_BOTH = f"{_dump('a-x1', A, 'a-')} {_dump('b', B, link='/api/v1/b')}"
_WHOLE = f"{_ATTEMPT.format(_dump('a', A))} [(res: cpu, q: 450), ]"
WORDS = {
    "CRITICAL": f"0 add {CRITICAL}",
    "attempt": _WHOLE,
    "cut1": _WHOLE[: _WHOLE.index(" in order to free up")],
    "cut2": _WHOLE[: _WHOLE.index("resources: [")],
    "cut3": _WHOLE[: _WHOLE.index("(res: cpu")],
    "both": f"{_ATTEMPT.format(_BOTH)} [(res: memory, q: 1048576), (res: example.com/gpu, q: 2), ]",
    "preempting": f'preemption.go "Preempting pod to free up resources" pod="shop/a" podUID="{A}"'
    ' insufficientResources="[(res: cpu, q: 270), ]" requestingPod="kube-system/crit"',
    "between": 'preemption.go "Attempting to evict pods in order to free up resources"'
    ' pods=[shop/a shop/b] insufficientResources="[(res: pods, q: 1), ]"',
    "evicted": 'preemption.go "Pod evicted successfully" pod="shop/a"',
    "unevicted": 'preemption.go "Failed to evict pod" pod="shop/a"',
    "unrecovered": f'predicate.go {_FAILED} failure" pod="kube-system/crit" err="{MISSING}"',
}

SCENES = f"""
victims of an old kubelet in their order
    CRITICAL
    .1 both | 2 preemption.go preemption: pod a-x1_shop({A}) evicted successfully
    9 preemption.go preemption: pod b_shop({B}) failed to evict timeout
    = PodPreempted @0.1 victim_pod=a-x1 victim_uid=a preemptor_pod=crit evicted=True
    = PodPreempted @0.1 victim_pod=b victim_uid=b preemptor_inferred=True evicted=False
of several pods being added the critical one preempts
    ~ pod b {{"spec":{{"priority":0}}}}
    ~ spec {{"priority":2000000000}}
    0 add {{B}}, {{A}} | .1 preemption.go "Pod evicted successfully" pod="shop/c"
    = PodPreempted preemptor_namespace=shop preemptor_uid=a
without an ADD nobody is named
    .1 attempt
    = PodPreempted preemptor_pod=None preemptor_inferred=False evicted=None
the next turn of the sync loop ends the wait
    CRITICAL
    .1 attempt | 5 turn | 6 delete {{B}}
    = PodPreempted evicted=None
its outcome is told once, also where a line out of order seemed to end the wait
    0 preempting | 3 turn | 10 unevicted
    = PodPreempted victim_uid=a evicted=None
a structured line names both
    0 preempting | 2 evicted
    = PodPreempted victim_uid=a preemptor_pod=crit preemptor_inferred=False evicted=True
at low verbosity the success is all there is
    2 evicted
    = PodPreempted victim_pod=a evicted=True insufficient=()
at low verbosity the failure is all there is
    2 unevicted
    = PodPreempted victim_pod=a evicted=False insufficient=()
the list of the versions between
    CRITICAL
    .1 between
    = PodPreempted victim_pod=a preemptor_pod=crit
    = PodPreempted victim_pod=b preemptor_pod=crit
a victim that outlived its kubelet does not end by it: the next one is handed the pod
    ~ spec c
    ~ status {{"phase":"Running"}}
    -60 loop | -50 add {{A}} | -40 started 1
    CRITICAL
    .1 preempting | 30 loop | 31 add {{A}} | 40 delete {{A}} | 41 grace 1 30
    = ContainerKilled reason=pod_deleted
status and event of a victim show it where its lines are lost: one fact, of the first sign
    ~ version 1.20.2
    ~ status {{"reason":"Preempting"}}
    CRITICAL
    .1 status {SIGN} Preempting | .2 warn a Preempting {SIGN}
    = PodPreempted @0.1 victim_uid=a preemptor_pod=crit insufficient=() evicted=None lines=2,3
the event may come before the line, from another goroutine: one fact, led by the line
    ~ spec c
    CRITICAL
    .1 warn a Preempting {SIGN} | .2 preempting
    = PodPreempted preemptor_inferred=False evicted=None lines=3,2
an event about a pod that lived on belongs to the victim, and verify compares
    ~ version 1.20.2
    ~ status {{"phase":"Failed"}}
    ~ pod b {{"statuses":[{{"phase":"Running"}}]}}
    CRITICAL
    .1 attempt | .2 warn b Preempting {SIGN}
    = PodPreempted victim_pod=a lines=2,3
but not where the victim has its own: it is of another one, whose line is lost
    ~ version 1.20.2
    ~ status {{"phase":"Failed"}}
    ~ pod b {{"statuses":[{{"phase":"Running"}}]}}
    CRITICAL
    .1 attempt | .2 warn a Preempting {SIGN} | .3 warn b Preempting {SIGN}
    = PodPreempted victim_pod=a lines=2,3
without a victim it belongs to nobody
    ~ version 1.20.2
    ~ pod b {{"statuses":[{{"phase":"Running"}}]}}
    CRITICAL
    .2 warn b Preempting {SIGN}
    = !PodPreempted
a wrong reason does not hide a copy
    CRITICAL
    .1 attempt | .2 status {SIGN} Evicted
    = PodPreempted lines=2,3
nor do other words
    CRITICAL
    .1 attempt | .2 status something else Preempting
    = PodPreempted lines=2,3
an eviction is another matter
    CRITICAL
    .1 attempt | .2 status {{LOW}} Evicted
    = PodPreempted lines=2
a choice that its process took along is over, for the next one has the pod
    ~ version 1.35.0
    ~ status {{"phase":"Running"}}
    0 loop | 1 Add api | 1.1 sync {{A}} | 2 preempting | 3 loop | 4 Add api | 4.1 sync {{A}}
    600 Evicting {{LOW}} | 601 kill 1 2
    = PodAdmitted @1.1
    = PodAdmitted @4.1
    = ContainerKilled reason=evicted <PodEvicted
of one whose status says so the next process knows
    ~ version 1.35.0
    ~ status {{"phase":"Failed","reason":"Preempting"}}
    0 loop | 1 Add api | 1.1 sync {{A}} | 2 preempting | 3 loop | 4 Add api | 4.1 kill 1 2
    = ContainerKilled reason=preempted <PodPreempted
no set of victims leads to the refusal
    CRITICAL
    .1 predicate.go Failed to admit pod {CRITICAL} - {RECOVERY}{MISSING}
    = PreemptionFailed preemptor_pod=crit insufficient=() error={MISSING}
    = PodRejected <PreemptionFailed message={RECOVERY}{MISSING}
so it does in a structured log
    CRITICAL
    .1 unrecovered
    = PreemptionFailed preemptor_pod=crit insufficient=() error={MISSING}
    = PodRejected <PreemptionFailed message={RECOVERY}{MISSING}
after a cut in the list there may have been more victims
    CRITICAL
    .1 cut1
    = PodPreempted cut=True
so there may after a cut before the amounts
    CRITICAL
    .1 cut2
    = PodPreempted cut=True
of the amounts only some are lost
    CRITICAL
    .1 cut3
    = PodPreempted cut=False
the whole line
    CRITICAL
    .1 attempt
    = PodPreempted cut=False insufficient=(InsufficientResource(resource='cpu', quantity=450),)
"""

test_scene = played_out(SCENES, WORDS)
