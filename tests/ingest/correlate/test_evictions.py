"""Evictions: the pod, the resource, the message, and the kills in between."""

from tests.ingest.scenes import A, B, played_out

LOW = "The node was low on resource: memory. "
HARD = f"{LOW}Threshold quantity: 1Gi, available: 900Mi. "
SOFT = f"{LOW}Threshold quantity: 2Gi, available: 1000Mi. "
OVER = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "
_ENDED = f'{{"phase":"Failed","reason":"Evicted","message":"{HARD}"}}'


def _round(second: float, available: str, satisfied: str, conditions: str = "") -> str:
    """A round in which a threshold is met, and those whose grace period is over."""
    events = [f'{second} Evict synchronize housekeeping"']
    for log, quantities in (
        ("reclaim not satisfied", "1Gi 2Gi"),
        ("grace periods satisfied", satisfied),
        ("updated stats", satisfied),
    ):
        for quantity in quantities.split():
            met = f'log="thresholds - {log}" signal="memory.available" quantity="{quantity}"'
            events.append(f'{second + 0.1:g} met {met} available="{available}"')
    for said in ("observed", "transition period not met") if conditions else ():
        events.append(
            f'{second + 0.2:g} Evict node conditions - {said}" nodeCondition={conditions}'
        )
    return " | ".join(events)


_MEMORY = '["MemoryPressure"]'
_KEYS = f'pod="shop/a" podUID="{A}"'
WORDS = {
    "RUNS": "-3600 sandbox 0 | -3599 started 1",
    "met": 'helpers.go "Eviction manager: threshold observed resource" {*}',
    "disk": 'helpers.go "Eviction manager: threshold observed resource"'
    ' log="thresholds - updated stats" signal="{1}.available" quantity="1Gi" available="900Mi"',
    "must": "eviction_manager.go eviction manager: must evict pod(s) to reclaim memory",
    "ranked": f"eviction_manager.go eviction manager: pods ranked for eviction: {{A}}, b_shop({B})",
    "Ranked": 'eviction_manager.go "Eviction manager: pods ranked for eviction" pods=["shop/a"]',
    "reclaim": 'eviction_manager.go "Eviction manager: attempting to reclaim" resourceName="{1}"',
    "gone": 'eviction_manager.go "Eviction manager: pod is evicted successfully" pod="shop/a"',
    "stays": 'eviction_manager.go "Eviction manager: pod failed to evict" pod="shop/a"',
    "evicting": f'eviction_manager.go "Evicting pod" {_KEYS} message="{{*}}"',
    "evictingb": f'eviction_manager.go "Evicting pod" pod="shop/b" podUID="{B}" message="{{*}}"',
    "given": f'kubelet.go "Pod terminating with grace period" {_KEYS} gracePeriod={{1}}',
    "stopping": f'kuberuntime_container.go "Killing container with a grace period" {_KEYS}'
    " gracePeriod={1}",
    "BEGUN": '-20 Evict synchronize housekeeping"',
    "WAITS": _round(-10, "950Mi", "1Gi"),
    "BOTH": _round(0, "900Mi", "1Gi 2Gi"),
    "PRESSED": f"{_round(-10, '950Mi', '1Gi', _MEMORY)} | {_round(0, '900Mi', '1Gi 2Gi', _MEMORY)}",
    "AGAIN": _round(1, "900Mi", "1Gi 2Gi"),
    "SOFTLY": _round(0, "1000Mi", "2Gi"),
    "ONE": _round(0, "900Mi", "1Gi"),
    "LATER": _round(0, "900Mi", "1Gi").partition(" | ")[2],
    "LOST": " | ".join(
        _round(second, available, "1Gi").partition(" | ")[2]
        for second, available in ((-20, "9Mi"), (-10, "9Mi"), (0, "900Mi"))
    ),
}

SCENES = f"""
an eviction in free text, from the resource that is short to the pod's end
    ~ spec c
    RUNS
    .1 must | .2 ranked | .3 grace 1 0 | .4 warn a Evicted {LOW}
    .5 event a Killing Stopping container c
    1.5 evict pod {{A}} is evicted successfully
    = PodEvicted @0.2 pod=a pod_uid=a resource=memory evicted=True lines=6,3,4,8 message={LOW}
    = ContainerKilled container=c container_id=1 reason=evicted <PodEvicted
an eviction in a structured log without events
    ~ spec c
    RUNS
    .1 Evict must evict pod(s) to reclaim" resourceName="memory"
    .2 Evict pods ranked for eviction" pods=["shop/a","shop/b"]
    .3 kill 1 0 | 1.5 gone
    = PodEvicted @0.2 pod=a pod_uid=a resource=memory message=None evicted=True lines=3,4,6
    = ContainerKilled container=c container_id=1 reason=evicted <PodEvicted
a critical pod is left alone, and the next of the ranking is evicted instead
    .1 must | .2 ranked | .3 evict cannot evict a critical pod {{A}}
    1.5 evict pod {{B}} failed to evict timeout
    = PodEvicted pod=b resource=memory evicted=False
so is a static one of kubelets before 1.19; a ranking that was pasted twice is one
    .1 must | .2 ranked | .2 ranked | .3 evict cannot evict a critical static pod {{A}}
    1.5 evict pod {{B}} failed to evict timeout
    = PodSpared pod=a
    = PodEvicted pod=b resource=memory evicted=False
    = ReclaimAttempted
where all are critical nothing is evicted, and a later kill has another reason
    ~ spec c
    RUNS
    .2 evict pods ranked for eviction: {{A}} | .3 evict cannot evict a critical pod {{A}}
    9.3 grace 1 0
    = !PodEvicted
    = ContainerKilled reason=None
for local storage nothing is ranked: the event opens it, and its success is no second one
    .2 warn a Evicted {OVER} | 1.5 evict pod {{A}} is evicted successfully
    = PodEvicted resource=None evicted=True message={OVER}
a pod that is evicted before it is seen to run is not refused: the message differs
    0 add {{A}} | .2 warn a Evicted {LOW}
    = PodEvicted message={LOW}
    = !PodRejected
a pod refused under pressure is not evicted, though its event has the same reason
    0 add {{A}}
    .1 eviction_manager.go Failed to admit pod {{A}} - node has conditions: [MemoryPressure]
    .2 warn a Evicted The node had condition: [MemoryPressure].\x20
    = !PodEvicted
    = PodRejected reason=Evicted
a message that shows another amount is not the reclaim's: its round's lines count
    BEGUN
    ONE
    .3 reclaim memory | .4 Ranked
    .5 evicting {LOW}Threshold quantity: 3Gi, available: 900Mi.\x20
    = PodEvicted threshold={3 << 30}
    = ReclaimAttempted threshold={1 << 30}
where the beginnings of rounds are lost nothing is known of earlier ones
    -30 Evict synchronize housekeeping"
    LOST
    .5 evicting {LOW}
    = PodEvicted signal=memory.available threshold={1 << 30} observed={900 << 20} since_ts_ns=None
a threshold of containerfs is a copy of that of the disk itself
    .1 disk imagefs | .1 disk containerfs | .3 reclaim ephemeral-storage
    = ReclaimAttempted signal=imagefs.available threshold={1 << 30} observed={900 << 20}
without the line of the disk itself it is not known which one it is
    .1 disk containerfs | .3 reclaim ephemeral-storage
    = ReclaimAttempted signal=None threshold={1 << 30} observed={900 << 20}
the disk itself
    .1 disk imagefs | .3 reclaim ephemeral-storage
    = ReclaimAttempted signal=imagefs.available
what the ranking alone shows is no eviction
    .1 evict attempting to reclaim memory | .2 ranked
    = !PodEvicted
    = ReclaimAttempted resource=memory outcome=None
the pod that goes right after a ranking is the one evicted of it
    .1 evict attempting to reclaim memory | .2 ranked | .21 evictingb {LOW}
    = PodEvicted pod=b rank=2 <ReclaimAttempted
what goes later may be of a ranking that is lost
    .1 evict attempting to reclaim memory | .2 ranked | 3.2 evictingb {LOW}
    = PodEvicted pod=b rank=None <None
a line that names another resource is still one of the round; behind the ranking it is of the next
    .1 reclaim memory | .2 Evict must evict pod(s) to reclaim" resourceName="pids" | .3 Ranked
    9 Evict must evict pod(s) to reclaim" resourceName="pids" | 9.1 Ranked
    = ReclaimAttempted resource=memory lines=1,2,3
    = ReclaimAttempted resource=pids lines=4,5
deleting what is unused suffices
    .1 reclaim inodes
    2.1 Evict able to reduce resource pressure without evicting pods."
    = ReclaimAttempted resource=inodes outcome=node_level
nobody can go
    .1 reclaim inodes | 2.1 Evict unable to evict any pods from the node"
    = ReclaimAttempted resource=inodes outcome=nothing
soft is what had to wait: the rounds before show the threshold, and the message which of two
    BEGUN
    PRESSED
    .3 reclaim memory | .4 Ranked | .5 evicting {LOW}Threshold quantity: 2Gi, available: 900Mi.\x20
    = PodEvicted signal=memory.available threshold={2 << 30} threshold_kind=soft rank=1
    = NodeConditionsChanged conditions=('MemoryPressure',) observed=('MemoryPressure',)
a condition lasts longer than a second: a store kept one of the lines that are equal in one
    BEGUN
    PRESSED
    .3 reclaim memory | .4 Evict synchronize housekeeping" | .5 Evict no resources are starved"
    9 Evict synchronize housekeeping" | 9.1 Evict no resources are starved"
    = ReclaimAttempted
    = NodeConditionsChanged conditions=('MemoryPressure',)
    = NodeConditionsChanged conditions=() lines=22
a process whose first rounds are in a hole may have met a threshold there
    -60 loop | -59 turn
    ONE
    .3 reclaim memory
    = ReclaimAttempted threshold={1 << 30} threshold_kind=None since_ts_ns=None
one whose first round follows its start has not
    -1 loop
    ONE
    .3 reclaim memory
    = ReclaimAttempted threshold={1 << 30} threshold_kind=hard
nor where the beginning of the round is lost, too
    -60 loop | -59 turn
    LATER
    .3 reclaim memory
    = ReclaimAttempted threshold={1 << 30} threshold_kind=None since_ts_ns=None
a pod chosen again while it ends: both wait for the same end
    BEGUN
    WAITS
    BOTH
    .5 evicting {LOW}Threshold quantity: 2Gi, available: 900Mi.\x20
    .6 given 12
    AGAIN
    1.4 reclaim memory | 1.4 Ranked
    1.5 evicting {HARD}
    3 gone | 3 gone
    = PodEvicted threshold_kind=soft evicted=True since_ts_ns={{WAITED}}
    = PodEvicted threshold_kind=hard evicted=True
a wait that is given up: the hard one's after 10 s, the soft one's, with 12 s of grace, after 18
    BEGUN
    WAITS
    BOTH
    .5 evicting {LOW}Threshold quantity: 2Gi, available: 900Mi.\x20
    .6 given 12
    AGAIN
    1.4 reclaim memory | 1.4 Ranked
    1.5 evicting {HARD}
    11.5 stays | 12 gone
    = PodEvicted threshold_kind=soft evicted=True
    = PodEvicted threshold_kind=hard evicted=False
of two evictions that wait for one end a status shows one: whose it is the rounds' amounts tell
    ~ status {_ENDED}
    BEGUN
    WAITS
    SOFTLY
    .3 reclaim memory | .4 Ranked | .6 given 12
    AGAIN
    1.4 reclaim memory | 1.4 Ranked
    3 gone | 3 gone
    = PodEvicted @0.4 threshold_kind=soft evicted=True message=None observed={1000 << 20}
    = PodEvicted @1.4 observed={900 << 20} evicted=True message={HARD}
without the rounds it is not known whose it is, and neither has it
    ~ status {_ENDED}
    .4 Ranked | 1.4 Ranked
    3 gone | 3 gone
    = PodEvicted @0.4 evicted=True message=None
    = PodEvicted @1.4 evicted=True message=None
nor where the pod outlived the first wait, and was evicted once more
    ~ status {_ENDED}
    .4 Ranked | 10.4 stays | 12 Ranked | 13 gone
    = PodEvicted @0.4 evicted=False message=None threshold=None
    = PodEvicted @12 evicted=True message=None
one that is evicted once is the one whose message a status shows
    ~ status {_ENDED}
    .4 Ranked | 10.4 stays
    = PodEvicted @0.4 evicted=False message={HARD} threshold={1 << 30}
a status does not show again what a line tells of another eviction
    ~ status {_ENDED}
    .4 Ranked | .5 evicting {HARD} | 10.4 stays | 12 Ranked | 13 gone
    = PodEvicted @0.4 evicted=False message={HARD}
    = PodEvicted @12 evicted=True message=None
an event that comes late is of the eviction that it names, not of the next
    BEGUN
    WAITS
    SOFTLY
    .3 reclaim memory | .4 Ranked | .5 evicting {SOFT}
    AGAIN
    1.4 reclaim memory | 1.4 Ranked | 1.45 warn a Evicted {SOFT} | 1.5 evicting {HARD}
    3 gone | 3 gone
    = PodEvicted @0.4 message={SOFT}
    = PodEvicted @1.4 message={HARD}
a line of another eviction than the one that waits opens it, though its ranking is lost
    .4 Ranked | .5 evicting {SOFT} | 8.5 evicting {HARD} | 12 gone | 12 gone
    = PodEvicted @0.4 message={SOFT} rank=1 evicted=True
    = PodEvicted @8.5 message={HARD} rank=None evicted=True

an eviction that only the API shows: its event dates it exactly; its end tells of no wait
    ~ status {_ENDED}
    -60 list a {{"phase":"Running"}} | 40 list a {_ENDED}
    .25 api a Evicted {HARD} | .25 api a Evicted {HARD}
    5 api a Evicted The node had condition: [MemoryPressure].\x20
    = PodEvicted @0.25 resource=memory threshold={1 << 30} threshold_kind=None evicted=None
another one ended the pod
    ~ status {_ENDED.replace(HARD, SOFT)}
    .25 api a Evicted {HARD}
    = PodEvicted @0.25 resource=memory observed={900 << 20} evicted=None
an eviction that only a pod list shows, between two lists
    ~ spec c
    0 list a {{"phase":"Running"}} | 60 list a {_ENDED}
    = PodEvicted @60 resource=memory observed={900 << 20} evicted=None
a pod that the first list shows so was evicted before
    ~ spec c
    60 list a {_ENDED}
    = !PodEvicted
events say which attempt was for what, where the log does not
    .2 Ranked | .4 gone | .6 Ranked | .8 stays
    .2001 api a Evicted {SOFT} | .6001 api a Evicted {HARD}
    = PodEvicted @0.2 rank=1 evicted=True message={SOFT}
    = PodEvicted @0.6 rank=1 evicted=False message={HARD}
the event dates an eviction of which the log has only the end, given up 10 s later
    .2 api a Evicted {OVER} | .3 stopping 30 | 10.2 stays
    = PodEvicted @0.2 grace_period_s=30 evicted=False message={OVER}
"""

test_scene = played_out(SCENES, WORDS)
