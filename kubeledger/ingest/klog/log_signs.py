"""What a log shows before it is read: its containers, its kubelet's end, its kubelet's version."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from kubeledger.ingest.klog.forms import Place, plain_evidence_line
from kubeledger.ingest.sources.items import LogLine
from kubeledger.model.patterns import regex

# What a log shows of its containers late, looked for before it is read.
#
# The PLEG logs the ID of a new container, and nothing else of a terse log (``-v=2``) says
# which container it is, until it is killed: that line holds both. To know it from the first
# line on, all kills of a log are looked at beforehand, bounded by the number of containers.

NamedContainer = tuple[str, str, str]
"""Bare container ID, pod UID, container's name."""

NAMING = (b"Killing container with a grace period", b"Killing unwanted container ", b'"}) of pod ')
"""What the lines hold that show an ID and its name."""

_MESSAGE = regex(
    rb'(?:^|"|\] )Container \\?"([^"\\]+)\\?" \(\{\\?"[^"\\]*\\?" \\?"([^"\\]+)\\?"\}\)'
    rb" of pod [^\s(]+\(([^\s()]+)\): "
)
_UNWANTED = regex(
    rb'Killing unwanted container \\?"([^"\\]+)\\?"\(id=\{\\?"[^"\\]*\\?" \\?"([^"\\]+)\\?"\}\)'
    rb' for pod \\?"[^\s(]+\(([^\s()]+)\)'
)
_NAME = regex(rb'[ ,]"?containerName"?[=:]"([^"\\]+)"')
_UID = regex(rb'[ ,]"?podUID"?[=:]"([^"\\]+)"')
_ID = regex(
    rb'[ ,]"?containerID"?[=:](?:"(?:[a-z][\w.+-]*://)?|\{"?Type"?:"?[\w.+-]*"?[ ,]"?ID"?:"?)'
    rb'([^"\\}\s]+)'
)


def named_container(body: bytes) -> NamedContainer | None:
    """What a log line (without a carrier's prefix) shows; None when it names no container."""
    for found in _found(body):
        container_id, uid, name = (value.decode("utf-8", "replace") for value in found)
        return container_id, uid, name
    return None


def _found(body: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    for pattern in (_MESSAGE, _UNWANTED):
        match = pattern.search(body)
        if match is not None:
            yield match[2], match[3], match[1]
    values = [pattern.search(body) for pattern in (_ID, _UID, _NAME)]
    if all(values):
        container_id, uid, name = (value[1] for value in values if value is not None)
        yield container_id, uid, name


# What shows a kubelet's end without klog's header: its own last words, and systemd's.
#
# The Go runtime writes a panic, and the runtime's own fatal errors, with the stack of a goroutine
# behind. A kubelet that does not understand its flags or settings ends before its log is set up:
# then cobra's error is all it says (component-base/cli, since 1.24; before, klog wrote it).
# systemd reports the ends that leave no line: those by a signal, and those that were asked for.

FATAL = "klog.Fatal"
"""What the assemblers ask for to get every line after which the process ends."""

_GO = regex(r"panic: |fatal error: |unexpected fault address |SIG(?:ABRT|QUIT|SEGV): ")
_COBRA = regex(
    r"Error: (?:failed to (?:run [Kk]ubelet|parse kubelet flag|set feature gates|validate kubelet"
    r"|load kubelet|merge (?:kubelet|drop-in)|precedence kubelet|construct kubelet|walk through "
    r"kubelet|unmarshal merged)|unknown command|initialize logging)"
)
_SYSTEMD = regex(
    r"Stopping .*\bkubel(?:et|ite)\b|\S*kubel(?:et|ite)\S*\.service: Main process exited, "
    r"code=(?P<code>\w+), status=\S+"
)
_PROBED = regex(
    r"[Pp]robe (?:for .{0,400} )?failed \(\w+\): (?:runtime|panic|fatal error|SIG[A-Z]+)\b"
)
_STACK = regex(r"^goroutine \d+[^\n]* \[", re.MULTILINE)


Reason = Literal["error", "fatal", "panic", "signal", "stopped"]
_REASONS: dict[str | None, Reason] = {None: "stopped", "exited": "error"}
"""What systemd says of the end -> reason; it is ``signal`` for all else (killed, dumped)."""


def is_last_words(text: str, tag: bytes | None, own_tag: bytes | None) -> bool:
    """Whether such a text may begin with this line.

    Args:
        tag: which program's it is, as the carrier says.
        own_tag: that of the kubelet's lines.
    """
    if tag == b"systemd":
        return _SYSTEMD.match(text) is not None
    return tag == own_tag and (_GO.match(text) is not None or _COBRA.match(text) is not None)


def quotes_a_crash(message: str) -> bool:
    """Whether a probe's output, in which a program in a container crashes, ends an entry.

    The kubelet wrote it as it came up to 1.20: what follows goes on with it.
    """
    return _PROBED.search(message) is not None


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


# The kubelet's version from where its log lines stand in its source.
#
# A build without a version (``v0.0.0-master+...``) still writes ``file.go:line`` into each
# line. The pairs below were seen in logs of builds whose version is known; the same message
# stands elsewhere in other versions. One pair may fit by chance, so several must agree.

AGREEING_MIN = 4

_CALLERS = {
    version: frozenset(text.split())
    for version, text in {
        "1.19": b"""
    kubelet.go:1218 kubelet.go:1228 kubelet.go:1827 kubelet.go:1865 server.go:411
    topology_manager.go:126 container_manager_linux.go:281 pod_workers.go:191 prober.go:117
    """,
        "1.20.2": b"""
    kubelet.go:1826 kubelet.go:1888 kubelet.go:1901 kubelet.go:1926 kubelet.go:1948
    kubelet.go:1971 kubelet.go:2160 kubelet.go:273 kubelet.go:1256
    kubelet_node_status.go:441 kubelet_node_status.go:561 kubelet_pods.go:1457
    kubelet_pods.go:1492 kubelet_pods.go:1534 eviction_manager.go:243
    eviction_manager.go:334 server.go:416 server.go:645 server.go:762 server.go:1117
    kuberuntime_manager.go:439 kuberuntime_manager.go:678 kuberuntime_manager.go:687
    status_manager.go:166 status_manager.go:429 status_manager.go:572 generic.go:191
    worker.go:194 prober.go:117 prober.go:126 image_gc_manager.go:230
    image_gc_manager.go:304 image_gc_manager.go:375 topology_manager.go:187
    container_manager_linux.go:274 event.go:291 pod_workers.go:191
    """,
        "1.36.2": b"""
    kubelet.go:295 kubelet.go:386 kubelet.go:1002 kubelet.go:1888 kubelet.go:2028
    kubelet.go:2622 kubelet.go:2709 kubelet.go:2737 kubelet.go:2756 kubelet.go:2803
    kubelet.go:2826 kubelet_node_status.go:671 kubelet_pods.go:1237 kubelet_pods.go:1893
    kubelet_pods.go:1903 eviction_manager.go:194 eviction_manager.go:256
    eviction_manager.go:371 server.go:301 server.go:545 server.go:1257 server.go:1403
    kuberuntime_manager.go:477 kuberuntime_manager.go:1177 kuberuntime_manager.go:1454
    status_manager.go:939 status_manager.go:972 generic.go:298 worker.go:240 prober.go:113
    prober.go:122 image_gc_manager.go:267 image_gc_manager.go:491 image_gc_manager.go:565
    topology_manager.go:274 container_manager_linux.go:278 event.go:389 pod_workers.go:984
    pod_workers.go:1251
    """,
    }.items()
}


def version_of_callers(callers: Iterable[bytes]) -> str | None:
    """Version that has the most of these ``file.go:line`` pairs; None unless it is clear."""
    seen = frozenset(callers)
    scores = sorted(
        ((len(seen & known), version) for version, known in _CALLERS.items()), reverse=True
    )
    (best, version), (second, _) = scores[0], scores[1]
    return version if best >= AGREEING_MIN and best >= 2 * second + AGREEING_MIN else None
