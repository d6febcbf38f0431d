"""Messages of containers: the PLEG, the runtime manager, kills, and the prober's ticks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, cast

from kubeledger.ingest.klog.forms import go_text
from kubeledger.ingest.klog.rows import (
    FORMATTED_POD,
    Regex,
    Row,
    ignore,
    ignore_text,
    klog,
    text,
    texts,
)
from kubeledger.ingest.messages.podref import shown_uid
from kubeledger.model.bodies.prober import ProbeType, TickResult
from kubeledger.model.patterns import regex

_EVENT = regex(r'ID:"?([^\s",]+)"?,? Type:"?(\w+)"?,? Data:"?([^\s",}]+)')


def pleg_event(event: Any) -> tuple[str | None, str, str]:  # noqa: ANN401 - decoded value
    """Pod UID, type and container ID of a ``PodLifecycleEvent``, as JSON or as Go text."""
    if isinstance(event, dict):
        uid, data = event.get("ID"), event.get("Data")
        data = data if isinstance(data, str) else ""
        if " " in data:
            raise ValueError(f"no ID of a container: {data!r}")  # something stands in the line
        return shown_uid(uid), str(event.get("Type") or ""), data
    match = _EVENT.search(str(event))
    return (shown_uid(match[1]), match[2], match[3]) if match else (None, "", "")


CONTAINERS = (
    klog("Adding new entry to the queue for processing", since="1.30"),
    klog("Back-off restarting failed container", since="1.21"),
    klog("Container termination failed with gracePeriod", since="1.21"),
    klog("Created PodSandbox for pod", since="1.21"),
    klog("Error syncing pod, skipping", since="1.21"),
    klog("Generic (PLEG): container finished", since="1.22"),
    klog("Killing unwanted container for pod", since="1.21"),
    klog("Message for Container of pod", since="1.21"),
    klog("No sandbox for pod can be found. Need to start a new one", since="1.21"),
    klog("Running preStop hook", since="1.21"),
    klog(
        "Stopping PodSandbox for pod, because all other containers are dead",
        since="1.21",
        to="Pod is stopped",
        constants={"because": "ended"},
    ),
    klog("Stopping PodSandbox for pod, will start new one", since="1.21"),
    klog("SyncLoop (PLEG): event for pod", since="1.21"),
    klog("SyncLoop (PLEG): pod does not exist, ignore irrelevant event", since="1.21"),
    klog("computePodActions got for pod", since="1.21"),
    text(
        "kubelet.go",
        'SyncLoop (PLEG): "{pod:pod}", event: {event}',
        to="SyncLoop (PLEG): event for pod",
        refusals_follow=True,
    ),
    text(
        "kubelet.go",
        "SyncLoop (PLEG): ignore irrelevant event: {event}",
        to="SyncLoop (PLEG): pod does not exist, ignore irrelevant event",
    ),
    *texts(
        "kuberuntime_manager.go",
        {
            'computePodActions got {:some} for pod "{pod:pod}"': "computePodActions got for pod",
            'No sandbox for pod "{pod:pod}"': (
                "No sandbox for pod can be found. Need to start a new one"
            ),
            'Created PodSandbox "{podSandboxID}" for pod "{pod:pod}"': "Created PodSandbox for pod",
        },
    ),
    text(
        "kuberuntime_manager.go",
        'Stopping PodSandbox for "{pod:pod}" because all other containers are dead',
        to="Pod is stopped",
        because="ended",
    ),
    *texts(
        "kuberuntime_manager.go",
        {
            'Container "{containerName}" ({containerStatusID:struct}) of pod {pod:pod}: '
            "{containerMessage}": ("Message for Container of pod"),
            'Killing unwanted container "{containerName}"(id={containerID:struct}) for pod '
            '"{pod:pod}"': ("Killing unwanted container for pod"),
        },
    ),
    *(
        text(
            "kuberuntime_manager.go",
            f"{word} {{period:word}} restarting failed container={{name:word}} pod={{pod:pod}}",
            to="Back-off restarting failed container",
            err="back-off {period} restarting failed container={name} pod={pod}",
        )
        for word in ("back-off", "Back-off")  # 1.18 and before: with a capital
    ),
    text(
        "pod_workers.go",
        'Error syncing pod {podUID} ("{pod:pod}"), skipping: {err}',
        to="Error syncing pod, skipping",
    ),
    *texts(
        "kuberuntime_container.go",
        {
            "Killing container {containerID:struct}, but using a {gracePeriod:int} second grace "
            "period override": ("Killing container with a grace period override"),
            'Killing container "{containerID}", but using a {gracePeriod:int} second grace period '
            "override": ("Killing container with a grace period override"),
            'Killing container "{containerID}", but using a {gracePeriod:int} second grace ': (
                "Killing container with a grace period"
            ),
            'Killing container "{containerID}" with a {gracePeriod:int} second grace period': (
                "Killing container with a grace period"
            ),
            'Running preStop hook for container "{containerID}"': "Running preStop hook",
            'Container "{containerID}" termination failed': (
                "Container termination failed with gracePeriod"
            ),
        },
    ),
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
    *ignore_text("generic.go", r"GenericPLEG: \S+/\S+: ", "PLEG: (?:Delete|Ignoring|Write|pod) "),
    *ignore_text(
        "kuberuntime_manager.go",
        "checking backoff for container ",
        "(?:init )?container &Container",
        "Backing Off restarting ",
        "Completed init container ",
        r"Container \S+ of pod \S+ is not in the desired state and shall be started",
    ),
    *ignore_text("pod_workers.go", "Error syncing pod "),
    *ignore_text(
        "kuberuntime_container.go",
        'Container "[^"]*" exited normally',
        'preStop hook for container "[^"]*" completed',
    ),
)


# What one line of the prober says about a tick.

Handler = Literal["exec", "http", "tcp", "grpc"]

TICK_MESSAGES: dict[str, tuple[TickResult, str | None]] = {
    "Probe errored": ("error", "err"),
    "Probe failed": ("failure", "output"),
    "Probe succeeded": ("success", None),
    "Probe succeeded with a warning": ("warning", "output"),
    "Probe unknown without error": ("unknown", None),
    "Unsupported probe result": ("unknown", None),
}
"""Structured message -> result of the tick, and the key that holds its output."""

# In the kubelet's order: the first that is set is the one that runs.
_HANDLERS: dict[str, Handler] = {
    "exec": "exec",
    "httpGet": "http",
    "tcpSocket": "tcp",
    "grpc": "grpc",
}


class Tick(NamedTuple):
    """One execution of a probe; ``output`` None when the line holds none."""

    probe_type: ProbeType
    container: str
    result: TickResult
    output: str | None


def tick_of(message: str, values: Mapping[str, Any]) -> Tick | None:
    """The tick of a line; None when it names no probe type."""
    result, output_key = TICK_MESSAGES[message]
    probe_type = str(values.get("probeType") or "").lower()
    if probe_type not in ("liveness", "readiness", "startup"):
        return None
    output = values.get(output_key or "")
    return Tick(
        cast(ProbeType, probe_type),
        str(values.get("containerName") or ""),
        _result_of(result, go_text(values.get("probeResult") or "")),
        None if output is None else go_text(output),
    )


def _result_of(result: TickResult, state: str | None) -> TickResult:
    """The result of a tick of which a line also holds the probe's own word for it.

    Lines about failures do; a word that is none of the probe's results is none it is sure of.
    """
    if result != "failure" or state in (None, "", "failure"):
        return result
    return "warning" if state == "warning" else "unknown"


def handler_of(spec: dict[str, Any] | None, ran_command: bool) -> Handler | None:
    """How a tick probed: as the pod spec says, else by the line that announced a command."""
    for key, handler in _HANDLERS.items():
        if spec is not None and spec.get(key) is not None:
            return handler
    return "exec" if ran_command else None


# Messages of the prober.


def _tick(outcome: str, to: str) -> Row:
    pattern = (
        r"(?P<probeType>Liveness|Readiness|Startup) probe for "
        rf'"(?P<pod>{FORMATTED_POD}):(?P<containerName>[^"]+)" {outcome}'
    )
    return text("prober.go", Regex(pattern), to=to)


PROBES = (
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
    *ignore_text("prober_manager.go", "(?:Startup|Readiness|Liveness) probe already exists! "),
    *ignore_text(
        "worker.go",
        "Probe target container not found: ",
        "No status for pod: ",
        "Pod .*, exiting probe worker$",
    ),
    *ignore_text("kubelet.go", r"SyncLoop \(container unhealthy\): ignore irrelevant update"),
)
