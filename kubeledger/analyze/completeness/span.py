"""The time that a report is about."""

from __future__ import annotations

import msgspec


class Span(msgspec.Struct, frozen=True):
    """From ``since`` on and up to ``until``, both included; None leaves that side open."""

    since_ns: int | None = None
    until_ns: int | None = None

    def holds(self, ts_ns: int) -> bool:
        """Whether an instant lies in it."""
        return self.touches(ts_ns, ts_ns)

    def touches(self, first_ns: int, last_ns: int) -> bool:
        """Whether it shares an instant with the time from ``first_ns`` to ``last_ns``."""
        return (self.since_ns is None or last_ns >= self.since_ns) and (
            self.until_ns is None or first_ns <= self.until_ns
        )


ALWAYS = Span()
