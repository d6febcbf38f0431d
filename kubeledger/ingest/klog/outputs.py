"""What the reader of a log hands on."""

from __future__ import annotations

import msgspec

from kubeledger.ingest.klog.cut_lines import CutValues
from kubeledger.ingest.klog.router import Handled, LineHandler, Needs
from kubeledger.ingest.klog.stamps import Doubt
from kubeledger.ingest.sources.facts import Fact
from kubeledger.ingest.sources.items import CutLine, LogLine

JOINED_MAX = 1 << 20
"""Bytes of continuation lines that an entry takes; more are counted but not kept."""


class LogEntry(msgspec.Struct):
    """A log line, the handlers that asked for it, and the keys that they need.

    Attributes:
        shape: of a line of severity W, E or F its message without values: it is told, whoever
            asked for it; None of others.
    """

    line: LogLine
    handlers: tuple[LineHandler, ...]
    needs: Needs = ()
    shape: str | None = None

    def lacks(self) -> str | None:
        """The first key that it needs and does not have; None where it has all.

        A cut line shows itself what of it is missing, when it is asked for it.
        """
        values = self.line.values or {}
        if isinstance(values, CutValues):
            return None
        keys = values.keys()
        for alternatives in self.needs:
            if keys.isdisjoint(alternatives):
                return alternatives[0]
        return None


class NewProcess(msgspec.Struct):
    """The first line of a log, or of another process ID in it."""

    line: LogLine


class ClockStep(msgspec.Struct):
    """The clock went back before this line."""

    line: LogLine
    from_ts_ns: int
    to_ts_ns: int


class WrongStamp(msgspec.Struct):
    """One of the lines above has a stamp that is not believed."""

    doubt: Doubt


Ordered = LogEntry | NewProcess | ClockStep | CutLine | Fact
"""What comes of a log in the end; facts are those about lines that are not understood."""
LogOutput = Ordered | WrongStamp
"""What the reader hands on."""


class PendingEntry(msgspec.Struct):
    """An entry whose last line may not have been seen.

    Attributes:
        handled: by whom, known at once for structured lines; None: free text, known when whole.
        rest: what follows the message of a structured text line; None for JSON.
        key: what a verdict on a free-text entry may be remembered by.
        continuation: its further lines; ``numbers`` where they stand, ``kept`` their bytes.
        cut: one of its lines was cut.
    """

    line: LogLine
    handled: Handled | None
    rest: str | None = None
    key: bytes | None = None
    continuation: list[str] = []
    numbers: list[int] = []
    kept: int = 0
    cut: bool = False

    def append(self, number: int, body: bytes) -> None:
        """One more line of the entry, without its carrier's prefix."""
        self.numbers.append(number)
        self.kept += len(body)
        if self.kept <= JOINED_MAX:
            self.continuation.append(body.rstrip().decode("utf-8", "replace"))

    def whole(self, first: str) -> str:
        """All lines of the text that begins with ``first``."""
        return "\n".join((first, *self.continuation)) if self.continuation else first
