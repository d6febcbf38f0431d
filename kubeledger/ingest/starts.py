"""Where a kubelet process begins in its log."""

from __future__ import annotations

import re
from collections.abc import Callable

from kubeledger.ingest.correlate.assembler import Assembler, Entry, reads
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.endings import EndingsAssembler
from kubeledger.ingest.correlate.oom import OomAssembler
from kubeledger.ingest.planning.identity import KubeletVersion
from kubeledger.ingest.sources.facts import Fact, Facts
from kubeledger.ingest.sources.items import LogLine
from kubeledger.model.bodies.node import KubeletStarted

_VERSION = r"Version: v(?:0|1\.(?:1?\d|20))\."
"""Of kubelets up to 1.20; what logs a later version in this form is the API server or the like."""
_FIRST = re.compile(
    rf"FLAG: --|\b{_VERSION}|Kubelet version|feature gates: |Flag --"
    r"|--pod-infra-container-image (will|is)|KubeletCgroups is not within"
    r"|[Uu]sing lenient decoding|KubeletConfiguration"
)
"""What a kubelet may log first, by verbosity, flags and version: all that precedes its version.

Source: cmd/kubelet/app/server.go NewKubeletCommand of 1.19 to 1.36.
"""

_FIRST_FILES = frozenset({"flags.go", "feature_gate.go", "envvar.go"})


class StartAssembler(Assembler):
    """Tells starts of kubelets apart.

    Another process ID is another kubelet. Where there is none (klog JSON), or always the
    same (a kubelet in a container is process 1), the lines of a start do: the flags and then
    the version are logged once each, in this order.
    """

    def __init__(
        self,
        context: BundleContext,
        version_at: Callable[[LogLine], KubeletVersion],
        oom: OomAssembler,
        endings: EndingsAssembler,
    ) -> None:
        super().__init__(context)
        self._oom = oom
        self._endings = endings
        self._version_at = version_at
        self._started = False
        self._pid: int | None = None
        self._versioned = False
        self._earlier: set[int | None] = set()

    def new_process(self, line: LogLine) -> Facts:
        """The first line of a log or of another process ID."""
        if self._started and (line.pid is None or line.pid == self._pid):
            return ()
        if line.pid in self._earlier:
            return ()  # what a process wrote last comes late
        is_first = line.file in _FIRST_FILES or _FIRST.search(line.message) is not None
        return self._start(line, from_start=is_first)

    @reads("FLAG")
    def _flag(self, entry: Entry) -> Facts:
        return self._start(entry.line) if self._versioned else ()

    @reads("Kubelet version")
    def _version(self, entry: Entry) -> Facts:
        facts = self._start(entry.line) if self._versioned else ()
        self._versioned = True
        return facts

    def _start(self, line: LogLine, *, from_start: bool = True) -> Facts:
        version = self._version_at(line)
        body = KubeletStarted(
            pid=line.pid,
            kubelet_version=version.version,
            version_source=version.source,
            version_text=version.text,
            restart=self._started,
            from_start=from_start,
        )
        self._earlier.add(self._pid)
        # A process whose begin is not in the log has logged its version: the next one logged
        # is another's.
        self._started, self._pid, self._versioned = True, line.pid, not from_start
        oom, endings = self._oom, self._endings
        before = [*oom.queue.release(line.ts_ns), *endings.queue.release(line.ts_ns)]
        cause = oom.kubelet_killed or endings.kubelet_exit
        endings.kubelet_exit = oom.kubelet_killed = None
        return (*before, Fact(line.ts_ns, body, (line.evidence,), cause=cause))
