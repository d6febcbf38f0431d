"""Logs of which the newest line stands first: ``journalctl -r``, and most log services.

Every line is an entry of its own there, so the lines are turned round, and those of one entry of
the kubelet with them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise

from kubeledger.ingest.sources.streams import SourceFile, SourceView

_WINDOW = 1 << 26
"""Bytes that are turned round at once; the file is read once for each."""


class ReversedLines(SourceView):
    """A log with its lines in the reverse order."""

    def __init__(self, source: SourceFile, begins: array[int], size: int) -> None:
        """Nothing is read yet.

        Args:
            source: the log as it stands.
            begins: (n,) byte at which each of its lines begins.
            size: of it, with an end of line after the last one.
        """
        super().__init__(source)
        self._begins = begins
        self._size = size

    def chunks(self) -> Iterator[bytes]:
        """The content, last line first.

        Raises:
            BadInputError: as ``SourceFile.chunks``.
        """
        cuts, begins = [self._size], self._begins
        while cuts[-1] > 0:
            cuts.append(begins[bisect_left(begins, max(cuts[-1] - _WINDOW, 0), 0, len(begins) - 1)])
            if cuts[-1] == cuts[-2]:  # one line is longer
                cuts[-1] = begins[bisect_left(begins, cuts[-2]) - 1]
        for end, begin in pairwise(cuts):
            window = b"".join(between(self._source.chunks(), begin, end))
            lines = window.removesuffix(b"\n").split(b"\n")
            yield b"\n".join(reversed(lines)) + b"\n"

    @property
    def keeps_places(self) -> bool:
        """As ``SourceFile.keeps_places``."""
        return False

    def place(self, line: int, offset: int) -> tuple[int, int]:
        """As ``SourceFile.place``."""
        begins, size = self._begins, self._size
        index = max(bisect_left(begins, size - offset) - 1, 0)
        end = begins[index + 1] if index + 1 < len(begins) else size
        first = line - (len(begins) - 1 - index)
        return self._source.place(first + index, begins[index] + offset - (size - end))


def between(chunks: Iterable[bytes], begin: int, end: int) -> Iterator[bytes]:
    """Bytes of a content from one place to another."""
    position = 0
    for chunk in chunks:
        piece = chunk[max(begin - position, 0) : max(end - position, 0)]
        if piece:
            yield piece
        position += len(chunk)
        if position >= end:
            return
