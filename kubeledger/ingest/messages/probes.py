"""Messages of the prober."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import ignore, ignore_text

__all__ = ["MESSAGES"]

MESSAGES = (
    *ignore(
        "Failed to trigger a manual run",
        "GRPC-Probe",
        "HTTP-Probe",
        "HTTP-Probe failed to create request",
        "Liveness probe already exists for container",
        "No status for pod",
        "Pod deletion requested before container has fully started",
        "Pod deletion requested, setting probe result to success",
        "Pod is terminated, exiting probe worker",
        "Probe is nil",
        "Probe target container not found",
        "Readiness probe already exists for container",
        "Startup probe already exists for container",
        "TCP-Probe",
        "TCP-Probe failed to resolve port",
        "Triggerd Probe by manual run",
        "Triggered Probe by manual run",
    ),
    *ignore_text(
        "prober.go",
        "HTTP-Probe (?:Host|Headers): ",
        "TCP-Probe Host: ",
        r"\S+ probe for .* is nil$",
        "Failed to find probe builder for container: ",
    ),
    *ignore_text(
        "prober_manager.go",
        "(?:Startup|Readiness|Liveness) probe already exists! ",
    ),
    *ignore_text(
        "worker.go",
        "Probe target container not found: ",
        "No status for pod: ",
        "Pod .*, exiting probe worker$",
    ),
    *ignore_text(
        "kubelet.go",
        r"SyncLoop \(container unhealthy\): ignore irrelevant update",
    ),
)
