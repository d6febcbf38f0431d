"""What live sources observe, and what a source is.

An observation holds raw content in the form that an import reads from files: what is recorded can
be imported as a directory, and the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

POLL_BYTES = 1 << 20
"""About so much content a poll gives at most; with more at hand, it is polled again at once."""


class Lines(msgspec.Struct, frozen=True, tag=True):
    """Lines of a log, as they stand in the file that an import would read.

    Attributes:
        stream: name of that file in the capture (``kubelet.log``, ``kernel.log``); one source each.
        data: whole lines, each with its newline; not empty.
        cursor: from where the source goes on after these lines; text that only the source
            understands, of at most a few KiB.
    """

    stream: str
    data: bytes
    cursor: str


class Document(msgspec.Struct, frozen=True, tag=True):
    """The content of a file, an endpoint or a socket at one moment.

    Attributes:
        name: path in the capture; a document that does not show its time lies in a directory that
            does (``snapshots/20261122T074007Z/pods.json``, see ``ingest.sources.times``).
        format: as ``ingest.sources.detect`` calls it.
        ts_ns: when it was read, UTC.
        cursor: as that of ``Lines``, for a source that is to know after a restart what it gave;
            None for one that gives the present state again.
    """

    name: str
    format: str
    data: bytes
    ts_ns: int
    cursor: str | None = None


class Gap(msgspec.Struct, frozen=True, tag=True):
    """What a source could not observe.

    Attributes:
        stream: the name of the lines that are missing, or of the source (``kubelet endpoints``).
        reason: in words for the user, one sentence without a full stop (``412 messages were
            suppressed``, ``the cursor is no longer in the journal``).
        since_ns: time of the last that was observed before, UTC; None where not known.
        until_ns: time of the first that was observed after; None while it lasts or where not known.
        cursor: as that of ``Document``.
    """

    stream: str
    reason: str
    since_ns: int | None
    until_ns: int | None
    cursor: str | None = None


Observation = Lines | Document | Gap


class Mark(msgspec.Struct, frozen=True):
    """Where a source begins, before it has read anything; it is polled again at once.

    Attributes:
        cursor: as that of ``Lines``; durable before the first line is read.
        gaps: those that have begun before the start, and last.
    """

    cursor: str
    gaps: tuple[Gap, ...] = ()


def size_of(observed: Iterable[Observation]) -> int:
    """Bytes of content."""
    return sum(len(each.data) for each in observed if not isinstance(each, Gap))


class Source(Protocol):
    """A live source.

    It is made with the cursor of its last observation that was made durable, or None, and goes on
    after it: nothing is left out, nothing comes twice. All that one poll gives becomes durable
    together with the last cursor among it: a ``Gap`` and the lines after it are never torn apart.

    Attributes:
        name: under which its cursor is kept, unique in a recorder and stable over restarts.
    """

    name: str

    def poll(self, now_ns: int) -> Iterable[Observation | Mark]:
        """What there is since the last poll, without waiting; nothing when there is nothing.

        About ``POLL_BYTES`` at most. A source that cannot be read now (an endpoint that is down)
        gives one ``Gap`` when that begins and one, with both ends, when it is over, and raises
        nothing.

        Args:
            now_ns: the present, UTC.

        Raises:
            KubeledgerError: it can never be read (no such unit, no permission).
        """
        ...

    def close(self) -> None:
        """Close what is open; called once."""
        ...
