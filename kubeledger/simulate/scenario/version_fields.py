"""Which fields the configuration of a kubelet version has, and defaults without a flag.

Source: v1.19 to v1.36.2 pkg/kubelet/apis/config/types.go KubeletConfiguration;
    pkg/kubelet/apis/config/v1beta1/defaults.go SetDefaults_KubeletConfiguration
"""

from __future__ import annotations

from typing import Any

_SINCE = {
    "cpuManagerPolicyOptions": 22,
    "failCgroupV1": 31,
    "localStorageCapacityIsolation": 25,
    "memoryManagerPolicy": 21,
    "reservedMemory": 21,
    "seccompDefault": 22,
    "topologyManagerPolicyOptions": 26,
    "topologyManagerScope": 20,
}
"""Fields with a flag, and the minor version of the field where that is later than 1.19."""

_UNFLAGGED: dict[str, tuple[tuple[int, Any], ...]] = {
    "configMapAndSecretChangeDetectionStrategy": ((0, "Watch"),),
    "containerLogMaxWorkers": ((30, 1),),
    "containerLogMonitorInterval": ((30, "10s"),),
    "enableDebugFlagsHandler": ((21, True),),
    "enableProfilingHandler": ((21, True),),
    "enableSystemLogHandler": ((0, True),),
    "enableSystemLogQuery": ((27, False),),
    "imageMaximumGCAge": ((29, "0s"),),
    "imagePullCredentialsVerificationPolicy": ((33, ""), (35, "NeverVerifyPreloadedImages")),
    "maxParallelImagePulls": ((27, None),),
    "memoryReservationPolicy": ((36, "None"),),
    "memorySwap": ((22, {"swapBehavior": ""}),),
    "memoryThrottlingFactor": ((22, 0.8), (27, 0.9), (37, None)),
    "mergeDefaultEvictionSettings": ((33, False),),
    "nodeLeaseDurationSeconds": ((0, 40),),
    "nodeStatusReportFrequency": ((0, "5m0s"),),
    "podLogsDir": ((30, "/var/log/pods"),),
    "preloadedImagesVerificationAllowlist": ((33, None),),
    "showHiddenMetricsForVersion": ((0, ""),),
    "shutdownGracePeriod": ((20, "0s"),),
    "shutdownGracePeriodByPodPriority": ((23, None),),
    "shutdownGracePeriodCriticalPods": ((20, "0s"),),
    "singleProcessOOMKill": ((32, None),),
    "tlsCurvePreferences": ((36, None),),
    "tracing": ((25, None),),
    "userNamespaces": ((33, None),),
}
"""Field -> (minor version from which on it holds, default); before the first: no such field."""


def has_field(name: str, minor: int) -> bool:
    """Whether the configuration of a minor version has a field; one without a row has always."""
    rows = _UNFLAGGED.get(name)
    return minor >= (rows[0][0] if rows else _SINCE.get(name, 0))


def unflagged_defaults(minor: int, given: dict[str, Any]) -> dict[str, Any]:
    """Defaults of the fields that no flag sets and that are not given.

    Args:
        given: fields that are.
    """
    found: dict[str, Any] = {}
    for name, rows in _UNFLAGGED.items():
        if given.get(name) is None and has_field(name, minor):
            found[name] = [value for since, value in rows if since <= minor][-1]
    # Who sets how often a status is written means how often it is reported.
    if "nodeStatusReportFrequency" in found and (often := given.get("nodeStatusUpdateFrequency")):
        found["nodeStatusReportFrequency"] = often
    return found
