"""Go's ``time.Time`` and ``time.Duration`` as integers, with their two peculiarities.

The zero time (midnight of 1 January of the year 1) stands for "never", and a difference of
times that does not fit 64 bits of nanoseconds (292 years) stops at the limit: the age of an
image detected at the zero time is the longest duration there is.
"""

from __future__ import annotations

from kubeledger.model.units import NS_PER_S

ZERO_TIME_NS = -62_135_596_800 * NS_PER_S
"""The zero time in nanoseconds since the epoch."""

DURATION_MAX_NS = 2**63 - 1


def elapsed(later_ns: int, earlier_ns: int) -> int:
    """Nanoseconds between two times, held within 64 bits (``Time.Sub``)."""
    return max(-DURATION_MAX_NS - 1, min(DURATION_MAX_NS, later_ns - earlier_ns))
