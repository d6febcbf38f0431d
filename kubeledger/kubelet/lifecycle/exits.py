"""What a container's exit code says of its end."""

from __future__ import annotations

UNKNOWN_KILLER = "what killed it is not recorded"
_FROM_OUTSIDE = {137: "SIGKILL", 143: "SIGTERM"}
"""128 and the number of a signal that a process gets from another: its end was not its own."""


def how_it_ended(exit_code: int | None, times: str = "") -> str:
    """How a container ended that nothing recorded has killed.

    Args:
        exit_code: None where not known.
        times: how often, as in `` 3×``.

    Returns:
        ``ended by itself with exit code 3``, or ``was found ended (exit code 137, SIGKILL)``.
    """
    signal = _FROM_OUTSIDE.get(exit_code or 0)
    if signal is not None:
        return f"was found ended{times} (exit code {exit_code}, {signal})"
    code = "" if exit_code is None else f" with exit code {exit_code}"
    return f"ended by itself{times}{code}"


def killer_unknown(exit_code: int | None) -> bool:
    """Whether something not recorded ended it."""
    return exit_code in _FROM_OUTSIDE
