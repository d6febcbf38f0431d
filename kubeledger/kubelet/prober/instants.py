"""Instants of container starts and ticks, and Go's arithmetic on them."""

from __future__ import annotations

from kubeledger.model.errors import BadInputError
from kubeledger.model.units import NS_PER_S, parse_api_ts

ZERO_TIME_NS = -62_135_596_800 * NS_PER_S
"""Go's zero time, 0001-01-01T00:00:00Z."""

_DURATION_MAX_NS = 2**63 - 1
_INT32_MAX = 2**31 - 1
_INT32_MIN = -(2**31)
_PARSED_MAX = 4096

_parsed: dict[str, int] = {}


def instant_ns(text: str) -> int:
    """Nanoseconds since the epoch of an RFC 3339 time.

    Clocks of one case repeat, so recent texts are remembered.

    Raises:
        BadInputError: the text is no such time.
    """
    known = _parsed.get(text)
    if known is not None:
        return known
    try:
        value = parse_api_ts(text)
    except ValueError:
        raise BadInputError(f"not an RFC 3339 time: {text[:80]!r}") from None
    if len(_parsed) >= _PARSED_MAX:
        _parsed.clear()
    _parsed[text] = value
    return value


def whole_seconds_since(start_ns: int, now_ns: int) -> int:
    """Seconds between two instants as the kubelet compares them with a delay.

    Truncated towards zero, so less than a second ahead counts as now. A span that no Go
    duration can hold is cut to 292 years; one beyond an int32 becomes its least value, so
    that a container without a start time never gets past its delay.

    Source: v1.20.2 pkg/kubelet/prober/worker.go doProbe
    Differs: the conversion to int32 is the one of amd64; other machines may differ there.
    """
    elapsed_ns = now_ns - start_ns
    if 0 <= elapsed_ns < _INT32_MAX * NS_PER_S:
        # Through a float as in Go: months after the start, the last nanoseconds round up.
        return int(elapsed_ns // NS_PER_S + elapsed_ns % NS_PER_S / NS_PER_S)
    elapsed_ns = max(-_DURATION_MAX_NS - 1, min(_DURATION_MAX_NS, elapsed_ns))
    seconds = -(-elapsed_ns // NS_PER_S) if elapsed_ns < 0 else elapsed_ns // NS_PER_S
    return seconds if _INT32_MIN <= seconds <= _INT32_MAX else _INT32_MIN
