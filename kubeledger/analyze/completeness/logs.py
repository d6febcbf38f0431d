"""Which records come from a kubelet's log: what the other parts of the report ask first."""

from __future__ import annotations

import re

from kubeledger.ingest.sources.envelope.forms import ROW_FORMATS
from kubeledger.model.bodies.ledger import ImportStarted
from kubeledger.model.record import Evidence, Record

__all__ = ["LogFiles", "begins_a_process"]

_LOG_FORMATS = ("klog-text", "klog-json", *ROW_FORMATS)
_START = re.compile(r"FLAG: --|Kubelet version|Version: v\d|Starting kubelet")


class LogFiles:
    """The names of the sources that are logs of a kubelet."""

    def __init__(self) -> None:
        self._formats: dict[str, str] = {}

    def see(self, record: Record) -> None:
        """Learn the formats that an import found."""
        if isinstance(record.body, ImportStarted):
            self._formats.update({source.file: source.format for source in record.body.sources})

    def line_of(self, record: Record) -> Evidence | None:
        """The first line of a log that the record rests on; None when it rests on none."""
        return next((e for e in record.evidence if self.is_line(e)), None)

    def is_line(self, evidence: Evidence) -> bool:
        """Whether it is a line of a log. Without an import (a recording), its text decides."""
        if evidence.line is None:
            return False
        known = self._formats.get(evidence.file)
        return known in _LOG_FORMATS if known else "log" in evidence.file


def begins_a_process(line: Evidence | None) -> bool:
    """Whether it is a line that a kubelet logs only when it starts."""
    return line is not None and _START.search(line.text or "") is not None
