"""What the sources of documents share: how often they look, and how documents are named."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from kubeledger.model.units import NS_PER_S
from kubeledger.record.observations import Document, Gap

STAT_NS = NS_PER_S
"""How often files are asked whether they have changed."""
READ_NS = 15 * NS_PER_S
"""How often a document is read at most."""
CONTENT_BYTES_MAX = 16 << 20
"""A larger document is not read: a recorder has 64 MiB."""


def snapshot(name: str, format: str, data: bytes, ts_ns: int) -> Document:
    """A document in the directory of its time, to the millisecond."""
    moment = datetime.fromtimestamp(ts_ns // NS_PER_S, UTC)
    millis = ts_ns % NS_PER_S // 1_000_000
    return Document(f"snapshots/{moment:%Y%m%dT%H%M%S}.{millis:03}Z/{name}", format, data, ts_ns)


class Every:
    """Whether a period has passed; a clock that is set, forwards or back, stops nothing."""

    def __init__(self, period_ns: int) -> None:
        self._period_ns = period_ns
        self._last_ns: int | None = None

    def due(self, now_ns: int) -> bool:
        """True the first time, and each time that a period has passed since it was."""
        if self._last_ns is not None and 0 <= now_ns - self._last_ns < self._period_ns:
            return False
        self._last_ns = now_ns
        return True


class Unchanged:
    """Which documents are as they were when they were last given."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def is_new(self, name: str, content: bytes | tuple[bytes, ...]) -> bool:
        """Whether the content differs from the last one of this name; it counts as given."""
        before, now = self._given.get(name), hash(content)
        self._given[name] = now
        return before != now


class Outage:
    """The gaps of one thing that cannot always be observed: one as it begins, one when it is over.

    Attributes:
        stream: as in ``Gap``.
    """

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self._worked_ns: int | None = None
        self._open: Gap | None = None

    def failed(self, reason: str) -> Iterator[Gap]:
        """It could not be observed; of the first time in a row a gap is made."""
        if self._open is None:
            self._open = Gap(self.stream, reason, self._worked_ns, None)
            yield self._open

    def worked(self, now_ns: int) -> Iterator[Gap]:
        """It was observed; the gap that was open ends."""
        if self._open is not None:
            yield Gap(self.stream, self._open.reason, self._open.since_ns, now_ns)
        self._open, self._worked_ns = None, now_ns
