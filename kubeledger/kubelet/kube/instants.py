"""Instants as the API writes them, and Go's zero time."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kubeledger.kubelet.kube.gotexts import DURATION_MAX_NS
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import NS_PER_S, parse_api_ts

ZERO_TIME_NS: Final = -62_135_596_800 * NS_PER_S
"""Go's zero time, 0001-01-01T00:00:00Z, which stands for "never"."""
_INT32_MAX: Final = 2**31 - 1
_INT32_MIN: Final = -(2**31)


@lru_cache(maxsize=4096)  # clocks of one case repeat
def instant_ns(text: str) -> int:
    """Nanoseconds since the epoch of an RFC 3339 time.

    Raises:
        BadInputError: the text is no such time.
    """
    try:
        return parse_api_ts(text)
    except ValueError:
        raise BadInputError(f"not an RFC 3339 time: {text[:80]!r}") from None


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
    elapsed_ns = max(-DURATION_MAX_NS - 1, min(DURATION_MAX_NS, elapsed_ns))
    seconds = -(-elapsed_ns // NS_PER_S) if elapsed_ns < 0 else elapsed_ns // NS_PER_S
    return seconds if _INT32_MIN <= seconds <= _INT32_MAX else _INT32_MIN
