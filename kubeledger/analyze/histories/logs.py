"""The kubelet's log in the records of a node: which rest on its lines, and its processes."""

from __future__ import annotations

import msgspec

from kubeledger.ingest.sources.envelope.forms import LOG_FORMATS
from kubeledger.model.bodies.ledger import ImportStarted
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.record import Evidence, Record
from kubeledger.verify.evidence.processes import is_same_process


class LoggedProcess(msgspec.Struct):
    """A kubelet process, as its log shows it.

    Attributes:
        first: its start, or the first record of its log where none has a start.
        last: the last record of its log.
    """

    first: Record
    last: Record

    @property
    def start(self) -> KubeletStarted | None:
        """Its start; None where no record has one."""
        return self.first.body if isinstance(self.first.body, KubeletStarted) else None


class LogEntry(msgspec.Struct, frozen=True):
    """A record, and what it says of the log.

    Attributes:
        line: the first line of a log that it rests on; None when it rests on none.
        begins: another process of the kubelet begins with it.
    """

    record: Record
    line: Evidence | None
    begins: bool


class LogReading:
    """Follows the log through the records, which come in the order of replay."""

    def __init__(self) -> None:
        self._formats: dict[str, str] = {}
        self.processes: list[LoggedProcess] = []

    def entry(self, record: Record) -> LogEntry:
        body = record.body
        if isinstance(body, ImportStarted):
            self._formats.update({source.file: source.format for source in body.sources})
        line = next(filter(self.is_line, record.evidence), None)
        begins = isinstance(body, KubeletStarted) and not self._goes_on(body)
        if begins or (line is not None and not self.processes):
            self.processes.append(LoggedProcess(record, record))
        elif line is not None and record.ts_ns >= self.processes[-1].last.ts_ns:
            self.processes[-1].last = record
        return LogEntry(record, line, begins)

    def _goes_on(self, body: KubeletStarted) -> bool:
        start = self.processes[-1].start if self.processes else None
        return start is not None and is_same_process(start.pid, body)

    def is_line(self, evidence: Evidence) -> bool:
        """Whether it is a line of a log. Without an import (a recording), its text decides."""
        if evidence.line is None:
            return False
        known = self._formats.get(evidence.file)
        return known in LOG_FORMATS if known else "log" in evidence.file
