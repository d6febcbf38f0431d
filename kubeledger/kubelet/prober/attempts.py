"""Up to three executions of a probe, what they count as, and the event they leave."""

from __future__ import annotations

from collections.abc import Sequence

from kubeledger.kubelet.prober.handlers import ErrorState
from kubeledger.kubelet.prober.results import FAILURE, SUCCESS, Result
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.model.bodies.prober import ProbeType, TickResult
from kubeledger.model.errors import BadInputError

ATTEMPTS_MAX = 3

COUNTS_AS: dict[TickResult, Result] = {
    "success": SUCCESS,
    "warning": SUCCESS,
    "failure": FAILURE,
    "unknown": FAILURE,
}
"""What an execution adds to the streak; ``error`` is missing because it is thrown away."""


class MissingAttemptError(BadInputError):
    """A tick executes the probe more often than the case has outcomes."""


def run_probe_with_retries(attempts: Sequence[TickResult]) -> int:
    """How many executions a tick takes: only an error is tried again, and at once.

    Args:
        attempts: what each execution would return, in order.

    Returns:
        1 to 3; the last of them decides.

    Raises:
        MissingAttemptError: an execution is needed that is not given.

    Source: v1.20.2 pkg/kubelet/prober/prober.go runProbeWithRetries
    Differs: the outcomes are given.
    """
    used = 0
    for outcome in attempts:
        used += 1
        if outcome != "error" or used == ATTEMPTS_MAX:
            return used
    raise MissingAttemptError(
        f"{used} attempts are given, but the kubelet executes the probe once more",
        advice=f"give the outcome of up to {ATTEMPTS_MAX} executions a tick",
    )


def event_of(
    probe_type: ProbeType,
    outcome: TickResult,
    text: str,
    facts: ProberFacts,
    state: ErrorState = "unknown",
) -> str | None:
    """The event about the container that a tick's last execution leaves.

    It is sent for each such tick, before any threshold; the recorder may drop it.

    Args:
        probe_type: whose probe it is.
        outcome: of the last execution.
        text: its output, or the error's text.
        facts: of the kubelet version.
        state: the result beside an error, as of ``Execution``.

    Returns:
        ``<type> <reason> <message>``, or None where nothing is said.

    Source: v1.36.2 pkg/kubelet/prober/prober.go probe
    Differs: no
    """
    name = probe_type.capitalize()
    match outcome:
        case "success":
            return None
        case "warning":
            return f"Warning ProbeWarning {name} probe warning: {text}"
        case "unknown" if facts.unknown_without_error_sends_no_event:
            return None
        case "failure" | "unknown":
            return f"Warning Unhealthy {name} probe failed: {text}"
        case "error" if facts.errored_event_names_state:
            return f"Warning Unhealthy {name} probe errored and resulted in {state} state: {text}"
        case "error":
            return f"Warning Unhealthy {name} probe errored: {text}"
