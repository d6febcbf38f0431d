"""Messages of the prober."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import FORMATTED_POD, Regex, Row, ignore, ignore_text, klog, text


def _tick(outcome: str, to: str) -> Row:
    pattern = (
        r"(?P<probeType>Liveness|Readiness|Startup) probe for "
        rf'"(?P<pod>{FORMATTED_POD}):(?P<containerName>[^"]+)" {outcome}'
    )
    return text("prober.go", Regex(pattern), to=to)


MESSAGES = (
    klog("Exec-Probe runProbe", since="1.21"),
    klog("Non-running container probed", since="1.21"),
    klog("Probe errored", since="1.21"),
    klog("Probe failed", since="1.21"),
    klog("Probe succeeded", since="1.21"),
    klog("Probe succeeded with a warning", since="1.21"),
    klog("Probe unknown without error", since="1.33"),
    klog("SyncLoop (probe)", since="1.21"),
    klog("SyncLoop (probe): ignore irrelevant update", since="1.21"),
    klog("Unsupported probe result", since="1.33"),
    _tick("succeeded(?! with a warning)", to="Probe succeeded"),
    _tick(r"failed(?: \((?P<probeResult>\w+)\))?(?:: ?(?P<output>.*))?", to="Probe failed"),
    _tick(r"errored(?:: ?(?P<err>.*))?", to="Probe errored"),
    _tick(r"succeeded with a warning(?:: ?(?P<output>.*))?", to="Probe succeeded with a warning"),
    text(
        "prober.go",
        "Exec-Probe Pod: {name:field}, Container: {containerName:field}, Command: ",
        to="Exec-Probe runProbe",
        pod="/{name}",
    ),
    text(
        "worker.go",
        "Non-running container probed: {pod:pod} - {containerName:word}",
        to="Non-running container probed",
    ),
    text(
        "kubelet.go",
        'SyncLoop (container unhealthy): "{pod:pod}"',
        to="SyncLoop (probe)",
        probe="liveness",
        status="unhealthy",
    ),
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
