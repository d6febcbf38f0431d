"""Several logs in one file: ``minikube logs``, ``tail FILE...``.

A line ``==> NAME <==`` stands before each. Where one of them names the kubelet, only what stands
below it is the kubelet's: others write klog lines, too, with a process ID of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubeledger.ingest.sources.node_lines import OTHER_NODE, whole_lines
from kubeledger.ingest.sources.streams import SourceFile, SourceView

OTHER_SECTION = OTHER_NODE + b"\x19"
"""What a line of another program begins with; the rest of it is filled: lines keep their places."""

_SECTION = re.compile(rb"^(?:\* )?==> ([^\r\n]{1,200}) <==\r?$", re.MULTILINE)
_HEAD = 64 << 10
_HEADER_MAX = 256


def kubelets_sections(source: SourceFile) -> SourceFile:
    """The lines of the kubelet, where the log has sections and one of them is the kubelet's.

    Raises:
        BadInputError: it cannot be read.
    """
    if _SECTION.search(source.head(_HEAD)) is None:
        return source
    tail = b""
    for chunk in source.chunks():
        window = tail + chunk
        if any(_is_kubelets(match) for match in _SECTION.finditer(window)):
            return SectionLines(source)
        tail = window[-_HEADER_MAX:]
    return source


def _is_kubelets(match: re.Match[bytes]) -> bool:
    return b"kubelet" in match[1]


class SectionLines(SourceView):
    """A log of which the lines in sections of other programs are filled."""

    def chunks(self) -> Iterator[bytes]:
        """The content, with lines of the same lengths.

        Raises:
            BadInputError: as ``SourceFile.chunks``.
        """
        is_ours = True
        for piece in whole_lines(super().chunks()):
            if is_ours and _SECTION.search(piece) is None:
                yield piece
                continue
            lines = piece.split(b"\n")
            for index, line in enumerate(lines):
                header = _SECTION.match(line)
                if header is not None:
                    is_ours = _is_kubelets(header)
                if not is_ours or header is not None:
                    lines[index] = _filled(line)
            yield b"\n".join(lines)

    def stored_chunks(self) -> Iterator[bytes]:
        """The content as it is read."""
        return self.chunks()


def _filled(line: bytes) -> bytes:
    """As long as the line; what is shorter than the mark is blank."""
    length = len(line)
    return OTHER_SECTION.ljust(length, b"\x19") if length >= len(OTHER_SECTION) else b" " * length
