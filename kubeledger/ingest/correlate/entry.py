"""A log line as an assembler reads it."""

from __future__ import annotations

from typing import Any

from kubeledger.ingest.klog.line_values import go_text, integer
from kubeledger.ingest.messages.podref import (
    EventLine,
    PodRef,
    bare_container_id,
    event_line,
    structured_pod,
    structured_pods,
)
from kubeledger.ingest.sources.items import LogLine
from kubeledger.model.record import Evidence

__all__ = ["Entry"]


class Entry:
    """One log line.

    Attributes:
        values: of its keys; of free text those of the structured line that came in its place.
    """

    __slots__ = ("line", "values")

    def __init__(self, line: LogLine) -> None:
        self.line = line
        self.values: dict[str, Any] = line.values or {}

    @property
    def ts_ns(self) -> int:
        """Its time."""
        return self.line.ts_ns

    @property
    def evidence(self) -> Evidence:
        """Where it stands."""
        return self.line.evidence

    def get(self, *keys: str) -> str | None:
        """The first of these values that is there, as Go prints it; None when none is."""
        for key in keys:
            value = self.values.get(key)
            if value is not None:
                return go_text(value)
        return None

    def text(self, *keys: str) -> str:
        """The same; empty when none is there."""
        return self.get(*keys) or ""

    def number(self, key: str) -> int | None:
        """A value as a whole number; None when it is none."""
        return integer(self.values.get(key))

    @property
    def pod(self) -> PodRef | None:
        """The pod that ``pod`` and ``podUID`` name."""
        return structured_pod(self.values.get("pod"), self.values.get("podUID"))

    @property
    def pods(self) -> list[PodRef]:
        """The pods that ``pods`` names."""
        return structured_pods(self.values.get("pods"))

    @property
    def container_id(self) -> str | None:
        """The bare ID under ``containerID``."""
        return bare_container_id(self.values.get("containerID"))

    def event(self, *reasons: str) -> EventLine | None:
        """The event about a pod that an ``Event occurred`` line shows, with one of the reasons."""
        return event_line(self.line, reasons)
