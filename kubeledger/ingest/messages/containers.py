"""Messages of containers: the PLEG, the runtime manager, kills."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import ignore, ignore_text

__all__ = ["MESSAGES"]

MESSAGES = (
    *ignore(
        "Backing Off restarting container in pod",
        "Checking backoff for container in pod",
        "Completed init container for pod",
        "Computing init container action",
        "Container exited normally",
        "Container of pod is not in the desired state and shall be started",
        "Container start failed in pod",
        "GenericPLEG",
        "Init container has been initialized",
        "Pod sandbox and network ready, invoking callback",
        "PreStop hook completed",
    ),
    *ignore_text(
        "generic.go",
        r"GenericPLEG: \S+/\S+: ",
        "PLEG: (?:Delete|Ignoring|Write|pod) ",
    ),
    *ignore_text(
        "kuberuntime_manager.go",
        "checking backoff for container ",
        "(?:init )?container &Container",
        "Backing Off restarting ",
        "Completed init container ",
        r"Container \S+ of pod \S+ is not in the desired state and shall be started",
    ),
    *ignore_text(
        "pod_workers.go",
        "Error syncing pod ",
    ),
    *ignore_text(
        "kuberuntime_container.go",
        'Container "[^"]*" exited normally',
        'preStop hook for container "[^"]*" completed',
    ),
)
