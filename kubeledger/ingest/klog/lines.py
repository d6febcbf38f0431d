"""From chunks of bytes to numbered lines, and which of them belong to the entry above.

Memory stays flat whatever the file holds: a line longer than ``LINE_MAX`` is cut, its
rest is skipped, and the cut is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import filterfalse
from typing import NamedTuple

from kubeledger.ingest.klog.values import closes_block, split_structured
from kubeledger.ingest.sources.prefix import (
    HEADER,
    Unwrapped,
    Unwrapper,
    is_entry,
    is_other_program,
)
from kubeledger.model.patterns import regex

LINE_MAX = 1 << 20
PARTIAL = b"\x00partial"
"""Body of a line that its carrier (CRI) says goes on in the next: no klog line has it."""

OTHER_PROGRAM = b"\x1aother"
"""Body of a line that its carrier says another component than the kubelet wrote."""

_SAMPLE_LINES = 200


class LineStats:
    """What was odd about a file's bytes.

    Attributes:
        overlong: lines cut at ``LINE_MAX``.
        undecodable: lines that are no UTF-8.
        nul_bytes: NUL bytes (a log cut in place while its writer went on has runs of them).
        ends_with_newline: the last line is whole.
    """

    def __init__(self) -> None:
        self.overlong = 0
        self.undecodable = 0
        self.nul_bytes = 0
        self.ends_with_newline = True
        self.size = 0


Batch = tuple[list[bytes], list[int] | None]
"""Lines without their newlines; their full lengths where some were cut, else None."""


class LineCutter:
    """Cuts chunks into lines; the state between two chunks."""

    def __init__(self) -> None:
        self.stats = LineStats()
        self._tail = b""
        self._skipped = 0

    def batches(self, chunks: Iterable[bytes]) -> Iterator[Batch]:
        """Lists of lines, one a chunk, then the last line if it has no newline."""
        for chunk in chunks:
            if chunk:
                yield self.cut(chunk)
        last = self.end()
        if last is not None:
            yield last

    def cut(self, chunk: bytes) -> Batch:
        """The lines that end in the next chunk of the content, which is not empty."""
        stats = self.stats
        stats.size += len(chunk)
        if b"\0" in chunk:
            stats.nul_bytes += chunk.count(b"\0")
        lines = self._cut(chunk)
        if not chunk.isascii():
            stats.undecodable += _count_undecodable(lines[0])
        return lines

    def end(self) -> Batch | None:
        """The last line, if the content ends inside it."""
        if not self._tail and not self._skipped:
            return None
        self.stats.ends_with_newline = False
        lengths = [len(self._tail) + self._skipped] if self._skipped else None
        return [self._tail], lengths

    def numbered(self, chunks: Iterable[bytes]) -> Iterator[tuple[int, int, bytes]]:
        """Number and offset (from 0) of each line, and the line."""
        number = offset = 0
        for lines, lengths in self.batches(chunks):
            for line, length in zip(lines, lengths or map(len, lines), strict=True):
                yield number, offset, line
                number += 1
                offset += length + 1

    def _cut(self, chunk: bytes) -> Batch:
        lines = chunk.split(b"\n")
        last = lines.pop()
        if not lines:
            self._keep(last)
            return [], None
        lengths: list[int] | None = None
        if self._skipped:
            lengths = [len(line) for line in lines]
            lengths[0] += len(self._tail) + self._skipped
            lines[0] = self._tail
        else:
            lines[0] = self._tail + lines[0]
        self._tail, self._skipped = b"", 0
        self._keep(last)
        if len(chunk) + len(lines[0]) > LINE_MAX and max(map(len, lines)) > LINE_MAX:
            lengths = lengths or [len(line) for line in lines]
            self.stats.overlong += sum(len(line) > LINE_MAX for line in lines)
            lines = [line[:LINE_MAX] for line in lines]
        return lines, lengths

    def _keep(self, piece: bytes) -> None:
        """Carry the unfinished last line over to the next chunk, at most ``LINE_MAX`` of it."""
        if self._skipped:
            self._skipped += len(piece)
            return
        tail = self._tail + piece
        if len(tail) > LINE_MAX:
            self.stats.overlong += 1
            self._skipped = len(tail) - LINE_MAX
            tail = tail[:LINE_MAX]
        self._tail = tail


def _count_undecodable(lines: list[bytes]) -> int:
    count = 0
    for line in filterfalse(bytes.isascii, lines):
        try:
            line.decode()
        except UnicodeDecodeError:
            count += 1
    return count


def is_bare_log(lines: list[bytes]) -> bool:
    """The log has no carrier's prefix: a klog line stands at the start of a line."""
    return any(map(is_entry, lines[:_SAMPLE_LINES])) and not are_carried(lines)


def are_carried(lines: list[bytes]) -> bool:
    """Some lines have a carrier's prefix; what is indented may quote a line of any form."""
    ends = *lines[:_SAMPLE_LINES], *lines[_SAMPLE_LINES:][-_SAMPLE_LINES:]
    unwrap = Unwrapper().unwrap
    return any(unwrap(line).wrapped for line in ends if not (is_entry(line) or line[:1].isspace()))


class Bodies:
    """Takes carriers' prefixes off whole batches, and joins what a carrier has split."""

    def __init__(self) -> None:
        self._unwrapper = Unwrapper()
        self._split = b""
        self._is_primed = False

    @property
    def is_open(self) -> bool:
        """The last line goes on in one that has not come."""
        return bool(self._split)

    def of(self, lines: list[bytes]) -> list[bytes]:
        """(n,) bodies; ``PARTIAL`` or ``OTHER_PROGRAM`` for a line that has none of its own."""
        if not self._is_primed:
            # Lines before the first entry have the same prefix.
            self._is_primed = any(self._unwrapper.unwrap(line).wrapped for line in lines)
        return [self._body(line) for line in lines]

    def unwrap(self, line: bytes) -> Unwrapped:
        """One line with all that its carrier says."""
        return self._unwrapper.unwrap(line)

    def _body(self, line: bytes) -> bytes:
        unwrapped = self._unwrapper.unwrap(line)
        if unwrapped.tag is not None and is_other_program(unwrapped.tag):
            return OTHER_PROGRAM
        body = self._split + unwrapped.body if self._split else unwrapped.body
        if unwrapped.partial and len(body) < LINE_MAX:
            self._split = body
            return PARTIAL
        self._split = b""
        return body


# Which lines without a klog header belong to the entry above them.
#
# Three things put such lines into a log: klog's own block form (``key=<``, then lines
# after a tab, then `` >``), free text with newlines in it (the output of a failed probe,
# a dumped pod, a runtime's error), and other programs that write to the same file. The
# first is certain. For the second an entry must be one of those below: a file whose
# messages hold text of others, or any warning or error, whose text may come from anywhere.
# A known foreign line (``Noise.plain``) never continues an entry. All else is a line
# of its own, so that a stray line cannot change what an entry says.

_SYSLOG_TAB = b"#011"

_MULTI_LINE: dict[str, re.Pattern[str] | None] = {
    "aws_credentials.go": None,
    "config.go": None,
    "container_manager_linux.go": regex(r"Creating Container Manager object"),
    "event.go": regex(r"Event\("),
    "exec.go": None,
    "file.go": None,
    "handlers.go": None,
    "http.go": None,
    "httplog.go": None,
    "kubelet_pods.go": None,
    "kuberuntime_manager.go": regex(
        r"Syncing Pod|computePodActions|createPodSandbox|Backing Off|Creating "
        r"|(?:init )?[Cc]ontainer &Container"
    ),
    "mount_linux.go": None,
    "pod_workers.go": None,
    "preemption.go": regex(r"preemption: attempting to evict pods "),
    "prober.go": regex(r"(?:Readiness|Liveness|Startup) probe for |Exec-Probe Pod: "),
    "runtime.go": None,
    "server.go": regex(r"KubeletConfiguration"),
    "status_manager.go": None,
}


def opens_block(body: bytes) -> bool:
    """The line ends inside a value over several lines."""
    return b"=<" in body[-8:] and body.rstrip().endswith(b"=<")


class BlockLine(NamedTuple):
    """A line inside a value over several lines; ``closes``: the value's last."""

    text: bytes
    closes: bool


def block_line(body: bytes) -> BlockLine | None:
    """A line after one that opened a block; None when it is none of the block.

    The tab that klog writes may have become spaces, or syslog's way to write a tab.
    """
    if body.startswith(_SYSLOG_TAB):
        body = b"\t" + body.removeprefix(_SYSLOG_TAB)
    closes = closes_block(body.decode("utf-8", "replace"))
    return BlockLine(body, closes) if closes or body.startswith((b"\t", b" ")) else None


def continues_free_text(severity: str, file: str, message: str) -> bool:
    """A free-text entry may go on in lines without a header."""
    if severity in "WEF":
        return True
    if file not in _MULTI_LINE:
        return False
    pattern = _MULTI_LINE[file]
    return pattern is None or pattern.match(message) is not None


def entry_goes_on(body: bytes) -> bool:
    """The same for an entry of which only its first line was kept."""
    header = HEADER.match(body)
    if header is None:
        return False
    message = body[header.end() :].decode("utf-8", "replace")
    file = header[4].decode("utf-8", "replace").rpartition("/")[2]
    if split_structured(message) is not None:
        return False
    return continues_free_text(header[1].decode(), file, message)
