"""One decision in the words of each kubelet version: the record is the same.

The lines are made after the klog calls of the versions named, with values as their klog
prints them: up to 1.26 Go's ``%+v`` of lists and structs, JSON since.
"""

from tests.ingest.scenes import played_out

_OLD, _STRUCT = (
    'Container "c" ({"containerd" "{1}"}) of pod {A}: {PROBED}',
    "{Type:containerd ID:{1}}",
)
_SAID = '"Message for Container of pod" containerName="c" pod="shop/a"'
_MET = 'helpers.go "Eviction manager: threshold observed resource" log="thresholds - {*}"'
_LOW = f'{_MET} signal=memory.available quantity="100Mi"'
WORDS = {
    "said": f'kuberuntime_manager.go {_SAID} containerMessage="{{PROBED}}" containerStatusID={{*}}',
    "met-1.20": "helpers.go eviction manager: thresholds - {*}: threshold "
    "[signal=memory.available, quantity=100Mi] observed 80Mi",
    "met-1.24": f'{_LOW} resource="80Mi"',
    "more-1.24": f'{_LOW.replace("100Mi", "200Mi")} resource="80Mi"',
    "met-1.26": f'{_LOW} resourceName=memory available="80Mi"',
    "met-1.36": f'{_MET} signal="memory.available" resourceName="memory" quantity="100Mi" '
    'available="80Mi"',
    "reclaim-1.20": "eviction_manager.go eviction manager: attempting to reclaim memory",
    "reclaim-1.24": 'eviction_manager.go "Eviction manager: attempting to reclaim" '
    "resourceName=memory",
    "reclaim-1.36": 'eviction_manager.go "Eviction manager: attempting to reclaim" '
    'resourceName="memory"',
}
_KILLS = (
    ("1.20.2", f".1 kuberuntime_manager.go {_OLD} | .1 grace 1 7"),
    ("1.21.3", f".1 said {_STRUCT} | .1 override 1 7"),
    ("1.21.4", f".1 said {_STRUCT} | .1 override 1 7 | .1 override 1 7"),
    ("1.23.0", f".1 said {_STRUCT} | .1 kill 1 7"),
    ("1.30.1", '.1 said {"Type":"containerd","ID":"{1}"} | .1 override 1 7 | .1 kill 1 7'),
)
KILLS = "\n".join(
    f"""one kill, however often it is logged, {version}
    ~ version {version}
    ~ spec c
    {log}
    = ContainerKilled container_id=1 reason=liveness_probe grace_period_s=7 message={{PROBED}}"""
    for version, log in _KILLS
)
_ROUND = (
    "ignoring grace period",
    "reclaim not satisfied",
    "grace periods satisfied",
    "updated stats",
)
RECLAIMS = "\n".join(
    f"""the threshold that leads to a reclaim: its signal, its amount, what was observed, {version}
    ~ version {version}.0
    {" | ".join(f".1 met-{version} {log}" for log in _ROUND)} | .2 reclaim-{reclaim}
    = ReclaimAttempted resource=memory signal=memory.available threshold={100 << 20}"""
    f" observed={80 << 20}"
    for version, reclaim in (("1.20", "1.20"), ("1.24", "1.24"), ("1.26", "1.24"), ("1.36", "1.36"))
)
SCENES = f"""{KILLS}
{RECLAIMS}
hard and soft are both met: up to 1.25 no message shows which of them it was
    ~ version 1.24.0
    .1 met-1.24 updated stats | .1 more-1.24 updated stats | .2 reclaim-1.24
    = ReclaimAttempted signal=memory.available threshold=None observed={80 << 20}
"""

test_scene = played_out(SCENES, WORDS)
