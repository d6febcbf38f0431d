"""Messages about resizes of running pods."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import ignore, klog

_INFEASIBLE = "Pod resize is infeasible"
_GUARANTEED = "Resize is infeasible for Guaranteed Pods alongside"

MESSAGES = (
    klog("Allocated pod resize is not currently feasible", since="1.34"),
    klog("Pod resize is deferred; will reevaluate later", since="1.34"),
    klog(_INFEASIBLE, since="1.34"),
    klog("Pod resize successfully allocated", since="1.34"),
    klog("Resize cannot be accommodated", since="1.27", until="1.35"),
    klog(
        "Resize is not feasible as request exceeds allocatable node resources",
        to=_INFEASIBLE,
        since="1.27",
        until="1.31",
    ),
    *(
        klog(f"{_GUARANTEED} {manager} Manager {policy}", to=_INFEASIBLE, since=since)
        for manager in ("CPU", "Memory")
        for since, policy in (("1.32", "static policy"), ("1.34", 'policy "static"'))
    ),
    *ignore(
        "Failed to handle pod resources resize",
        "Pod not found; removing from pending resizes",
        "Skipping evaluation of pending resizes; sources are not ready",
        "Successfully retried resize after timeout",
        "updatePodSandboxResources failed: unimplemented; this call is best-effort: proceeding "
        "with resize",
    ),
)
