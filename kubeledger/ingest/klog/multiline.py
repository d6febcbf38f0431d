"""Which lines without a klog header belong to the entry above them.

Three things put such lines into a log: klog's own block form (``key=<``, then lines
after a tab, then `` >``), free text with newlines in it (the output of a failed probe,
a dumped pod, a runtime's error), and other programs that write to the same file. The
first is certain. For the second an entry must be one of those below: a file whose
messages hold text of others, or any warning or error, whose text may come from anywhere.
A known foreign line (``Noise.plain``) never continues an entry. All else is a line
of its own, so that a stray line cannot change what an entry says.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kubeledger.ingest.klog.values import closes_block, split_structured
from kubeledger.ingest.sources.prefix import HEADER

_SYSLOG_TAB = b"#011"

_MULTI_LINE: dict[str, re.Pattern[str] | None] = {
    "aws_credentials.go": None,
    "config.go": None,
    "container_manager_linux.go": re.compile(r"Creating Container Manager object"),
    "event.go": re.compile(r"Event\("),
    "exec.go": None,
    "file.go": None,
    "handlers.go": None,
    "http.go": None,
    "httplog.go": None,
    "kubelet_pods.go": None,
    "kuberuntime_manager.go": re.compile(
        r"Syncing Pod|computePodActions|createPodSandbox|Backing Off|Creating "
        r"|(?:init )?[Cc]ontainer &Container"
    ),
    "mount_linux.go": None,
    "pod_workers.go": None,
    "preemption.go": re.compile(r"preemption: attempting to evict pods "),
    "prober.go": re.compile(r"(?:Readiness|Liveness|Startup) probe for |Exec-Probe Pod: "),
    "runtime.go": None,
    "server.go": re.compile(r"KubeletConfiguration"),
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
