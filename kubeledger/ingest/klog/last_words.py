"""What shows a kubelet's end without klog's header: its own last words, and systemd's.

The Go runtime writes a panic, and the runtime's own fatal errors, with the stack of a goroutine
behind. A kubelet that does not understand its flags or settings ends before its log is set up:
then cobra's error is all it says (component-base/cli, since 1.24; before, klog wrote it).
systemd reports the ends that leave no line: those by a signal, and those that were asked for.
"""

from __future__ import annotations

import re
from typing import Literal

from kubeledger.ingest.klog.forms import Place, plain_evidence_line
from kubeledger.ingest.sources.items import LogLine

FATAL = "klog.Fatal"
"""What the assemblers ask for to get every line after which the process ends."""

_GO = re.compile(r"panic: |fatal error: |unexpected fault address |SIG(?:ABRT|QUIT|SEGV): ")
_COBRA = re.compile(
    r"Error: (?:failed to (?:run [Kk]ubelet|parse kubelet flag|set feature gates|validate kubelet"
    r"|load kubelet|merge (?:kubelet|drop-in)|precedence kubelet|construct kubelet|walk through "
    r"kubelet|unmarshal merged)|unknown command|initialize logging)"
)
_SYSTEMD = re.compile(
    r"Stopping .*\bkubel(?:et|ite)\b|\S*kubel(?:et|ite)\S*\.service: Main process exited, "
    r"code=(?P<code>\w+), status=\S+"
)
_STACK = re.compile(r"^goroutine \d+[^\n]* \[", re.MULTILINE)


Reason = Literal["error", "fatal", "panic", "signal", "stopped"]
_REASONS: dict[str | None, Reason] = {None: "stopped", "exited": "error"}
"""What systemd says of the end -> reason; it is ``signal`` for all else (killed, dumped)."""


def is_last_words(text: str, tag: bytes | None, own_tag: bytes | None) -> bool:
    """Whether such a text may begin with this line.

    Args:
        text: the line.
        tag: which program's it is, as the carrier says.
        own_tag: that of the kubelet's lines.
    """
    if tag == b"systemd":
        return _SYSTEMD.match(text) is not None
    return tag == own_tag and (_GO.match(text) is not None or _COBRA.match(text) is not None)


def last_line(place: Place, ts_ns: int, pid: int | None, source: str) -> LogLine:
    """The line as an entry of the process that wrote the one above (-1: none did).

    What cobra writes is of a process that may have logged nothing else.
    """
    line = plain_evidence_line(place, ts_ns, source)
    line.severity = "F"
    line.pid = None if pid == -1 or _COBRA.match(line.message) else pid
    return line


def reason_of(line: LogLine) -> Reason | None:
    """Why the process ended; None for a text that only looks like it: no stack follows it."""
    if line.file:
        return "fatal" if line.severity == "F" else "error"
    if systemd := _SYSTEMD.match(line.message):
        return _REASONS.get(systemd["code"], "signal")
    if _COBRA.match(line.message):
        return "error"
    return "panic" if _STACK.search(line.message) else None


def is_of_systemd(line: LogLine) -> bool:
    """Systemd reports an end that the process may have logged itself."""
    return not line.file and _SYSTEMD.match(line.message) is not None


def first_line(message: str) -> str:
    """What ended it, without the goroutines' stacks and the flags' descriptions."""
    return message.partition("\n")[0]
