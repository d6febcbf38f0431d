"""What one line of the prober says about a tick."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple, cast

from kubeledger.model.bodies.prober import ProbeType, TickResult

__all__ = ["TICK_MESSAGES", "Handler", "Tick", "handler_of", "result_of", "tick_of_text"]

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

_REST = re.compile(r"(?: with a warning| \((?P<state>\w+)\))?(?:: ?(?P<output>.*))?", re.DOTALL)
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


def tick_of_text(match: re.Match[str]) -> Tick:
    """The tick of a free-text line, matched into type, container, outcome and rest."""
    rest = _REST.fullmatch(match["rest"])
    state = None if rest is None else rest["state"]
    output = None if rest is None else rest["output"]
    result: TickResult
    if match["outcome"] == "errored":
        result = "error"
    elif match["outcome"] == "failed":
        result = result_of("failure", state)
    else:
        result = "warning" if match["rest"].startswith(" with a warning") else "success"
    probe_type = cast(ProbeType, match["type"].lower())
    return Tick(probe_type, match["container"], result, output)


def result_of(result: TickResult, state: str | None) -> TickResult:
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
