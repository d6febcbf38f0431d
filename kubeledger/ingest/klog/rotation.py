"""Rotated logs that overlap: from where a log's lines stand in the next one as well.

A rotation by copying, or two windows cut out of one journal, leave the end of one log at
the beginning of the next. That follows from the lines themselves, without what carried them:
all that the first log holds from some line on must be in the next, in the same order. Then
the next one is read instead. Only logs whose times overlap are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from kubeledger.ingest.klog.lines import LineCutter
from kubeledger.ingest.klog.log_survey import LogSurvey
from kubeledger.ingest.sources.prefix import Unwrapper, is_entry
from kubeledger.ingest.sources.streams import SourceFile

_BEGINNINGS = 64
"""Entries of the next log whose place in the first is sought: its very first may be cut."""


class Overlap(msgspec.Struct, frozen=True):
    """What of a log is in the next one.

    Attributes:
        offset: byte at which it begins.
        lines: of it.
    """

    offset: int
    lines: int


def overlap_of(log: LogSurvey, following: LogSurvey) -> Overlap | None:
    """The end of a log with which the following one begins; None when there is no such.

    Raises:
        BadInputError: one of them cannot be read.
    """
    if begins_after(following, log):
        return None
    return _common_lines(log.source, following.source)


def up_to(chunks: Iterable[bytes], end: int) -> Iterator[bytes]:
    """The first bytes of a content."""
    for chunk in chunks:
        if end <= 0:
            return
        yield chunk[:end]
        end -= len(chunk)


def begins_after(following: LogSurvey, log: LogSurvey) -> bool:
    """All of a log is later than another one, or it is not known when it was written."""
    if following.first_stamp is not None and log.last_stamp is not None:
        return following.first_stamp > log.last_stamp
    if following.first_ns is not None and log.last_ns is not None:
        return following.first_ns > log.last_ns
    return True


def _common_lines(log: SourceFile, following: SourceFile) -> Overlap | None:
    beginnings = dict.fromkeys(islice(_entries(following), _BEGINNINGS))
    offset = _place_of(log, beginnings)
    if offset is None:
        return None
    rest, begins = _bodies(log, offset), _bodies(following, 0)
    lines = 0
    for body, is_complete in rest:
        lines += 1
        # A half-written last line goes on in the next log.
        if not any(
            body == other or (not is_complete and other.startswith(body)) for other, _ in begins
        ):
            return None
    return Overlap(offset, lines)


def _entries(source: SourceFile) -> Iterator[bytes]:
    return (body for _, body, _ in _lines(source) if is_entry(body))


def _place_of(source: SourceFile, bodies: Iterable[bytes]) -> int | None:
    """Offset of the first line that is one of these."""
    wanted = set(bodies)
    for offset, body, _ in _lines(source):
        if body in wanted:
            return offset
    return None


def _bodies(source: SourceFile, begin: int) -> Iterator[tuple[bytes, bool]]:
    """Lines from an offset on, without carriers' prefixes, and whether each has its end."""
    for offset, body, is_complete in _lines(source):
        if offset >= begin:
            yield body, is_complete


def _lines(source: SourceFile) -> Iterator[tuple[int, bytes, bool]]:
    unwrapper, cutter = Unwrapper(), LineCutter()
    for _, offset, line in cutter.numbered(source.chunks()):
        yield offset, unwrapper.body(line).rstrip(b"\r"), cutter.stats.ends_with_newline
