"""Words of scenes about probes: pod ``a``, its containers ``c`` and others."""

_KEYS = 'pod="shop/a" podUID="{a}"'
WORDS = {
    "BEGUN": "-60 loop | -59 Add api",
    "ticked": 'prober.go {1} probe for "{A}:c" {*}',
    "yes": 'prober.go Readiness probe for "{A}:c" succeeded',
    "no": 'prober.go {1} probe for "{A}:c" failed (failure): x',
    "Yes": f'prober.go "Probe succeeded" probeType="{{1}}" {_KEYS} containerName="c"',
    "No": f'prober.go "Probe failed" probeType="{{1}}" {_KEYS} containerName="{{2}}"'
    ' probeResult="failure" output="x"',
    "tick": f'prober.go "{{*}} probeType="Readiness" {_KEYS} containerName="c"',
    "half": f'prober.go "Probe failed" probeType="Readiness" {_KEYS} containerName="c"'
    ' probeResult="failure" output=<',
    "Error": f'prober.go "Probe errored" probeType="{{1}}" {_KEYS} containerName="c" err="x"',
    "ready": 'kubelet.go "SyncLoop (probe)" probe="readiness" status="ready" pod="shop/a"',
    "unready": 'kubelet.go "SyncLoop (probe)" probe="readiness" status="not ready" pod="shop/a"',
    "begins": 'kubelet.go "SyncLoop (probe)" probe="startup" status="started" pod="shop/a"',
    "unbegun": 'kubelet.go "SyncLoop (probe)" probe="startup" status="unhealthy" pod="shop/a"',
    "odd": 'kubelet.go "SyncLoop (probe)" probe="liveness" status="started" pod="shop/a"',
    "unhealthy": 'kubelet.go "SyncLoop (probe)" probe="liveness" status="unhealthy" pod="shop/a"',
    "Unhealthy": 'kubelet.go SyncLoop (container unhealthy): "{A}"',
    "stopped": 'worker.go "Non-running container probed" pod="shop/a" containerName="c"',
    "exec": "prober.go Exec-Probe Pod: a, Container: c, Command: [x]",
}
