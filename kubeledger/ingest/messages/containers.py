"""Messages of containers: the PLEG, the runtime manager, kills, and the prober's ticks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, cast

from kubeledger.ingest.klog.forms import go_text
from kubeledger.ingest.messages.podref import bare_container_id, shown_uid
from kubeledger.model.bodies.prober import ProbeType, TickResult
from kubeledger.model.patterns import regex

_EVENT = regex(r'ID:"?([^\s",]+)"?,? Type:"?(\w+)"?,? Data:"?([^\s",}]+)["}]')


def pleg_event(event: Any) -> tuple[str | None, str, str]:  # noqa: ANN401 - decoded value
    """Pod UID, type and container ID of a ``PodLifecycleEvent``, as JSON or as Go text."""
    if isinstance(event, dict):
        uid, data = event.get("ID"), event.get("Data")
        data = data if isinstance(data, str) else ""
        if data and bare_container_id(data) is None:
            raise ValueError(f"no ID of a container: {data!r}")  # something stands in the line
        return shown_uid(uid), str(event.get("Type") or ""), data
    match = _EVENT.search(str(event))
    return (shown_uid(match[1]), match[2], match[3]) if match else (None, "", "")


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
    One that denies the rest of the line is kept: what else shows the tick denies it.
    """
    if result != "failure" or state in (None, "", "failure"):
        return result
    return cast(TickResult, state) if state in ("success", "warning") else "unknown"


def handler_of(spec: dict[str, Any] | None, ran_command: bool) -> Handler | None:
    """How a tick probed: as the pod spec says, else by the line that announced a command."""
    for key, handler in _HANDLERS.items():
        if spec is not None and spec.get(key) is not None:
            return handler
    return "exec" if ran_command else None
