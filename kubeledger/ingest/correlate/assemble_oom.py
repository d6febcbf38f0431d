"""Kills by the kernel, from its log, the kubelet's lines and the statuses of containers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from kubeledger.ingest.correlate.assembler import (
    Assembler,
    ItemHandler,
    StructuredHandler,
)
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.oom_kills import Sighting
from kubeledger.ingest.messages.podref import bare_container_id, text_value
from kubeledger.ingest.sources.facts import Facts
from kubeledger.ingest.sources.items import Item, KernelReport, LogLine, PodList
from kubeledger.ingest.sources.times import api_time, go_time
from kubeledger.model.record import Evidence

__all__ = ["OomAssembler"]

_SYSTEM = re.compile(r"System OOM encountered(?:, victim process: (.*), pid: (\d+))?")
_STATUS_LISTS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


class OomAssembler(Assembler):
    """Out-of-memory kills."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._kills = context.links.oom

    def structured(self) -> Mapping[str, StructuredHandler]:
        """Statuses in the log, the event about the node, and lines of cadvisor."""
        return {
            "Patch status for pod": self._patched,
            "Status for pod updated successfully": self._status,
            "Got sys oom event": lambda line: self._release(line.ts_ns),
            "Event occurred": self._event,
            "Created an OOM event in container": self._seen,
            "Added an OOM kill event": self._limit,
        }

    def items(self) -> Mapping[type, ItemHandler]:
        """Kernel reports and pod lists."""
        return {KernelReport: self._report, PodList: self._listed}

    def waiting_since(self) -> int | None:
        """Time of the oldest fact that is held back; None when nothing is."""
        return self._kills.queue.waiting_since()

    def finish(self, ts_ns: int) -> Facts:
        """What still waited."""
        return self._kills.queue.drain()

    def _release(self, ts_ns: int) -> Facts:
        return self._kills.queue.release(ts_ns)

    def _report(self, item: Item) -> Facts:
        assert isinstance(item, KernelReport)
        self._kills.reported(self.context, item)
        return self._release(item.ts_ns)

    def _seen(self, line: LogLine) -> Facts:
        at_ns = go_time(text_value(line, "time"))
        seen = Sighting(line.ts_ns, at_ns, text_value(line, "container"), line.evidence)
        self._kills.sighted(self.context, seen, process=self.context.links.epoch)
        return self._release(line.ts_ns)

    def _limit(self, line: LogLine) -> Facts:
        at_ns = go_time(text_value(line, "time"))
        self._kills.limit_sighted(at_ns, text_value(line, "container"), line.evidence)
        return self._release(line.ts_ns)

    def _event(self, line: LogLine) -> Facts:
        """``SystemOOM`` of the node."""
        match = _SYSTEM.match(text_value(line, "message"))
        if match is not None and text_value(line, "reason") == "SystemOOM":
            pid = None if match[2] is None else int(match[2])
            seen = Sighting(line.ts_ns, line.ts_ns, None, line.evidence, match[1], pid)
            self._kills.sighted(self.context, seen, process=self.context.links.epoch)
        return self._release(line.ts_ns)

    def _patched(self, line: LogLine) -> Facts:
        if "OOMKilled" in line.message or "OOMKilled" in (patch := text_value(line, "patch")):
            patch = text_value(line, "patch")
            try:
                told = msgspec.json.decode(patch)
            except msgspec.DecodeError:
                return self._release(line.ts_ns)
            self._statuses((told or {}).get("status"), line.evidence)
        return self._release(line.ts_ns)

    def _status(self, line: LogLine) -> Facts:
        if "OOMKilled" in line.text:
            self._statuses((line.values or {}).get("status"), line.evidence)
        return self._release(line.ts_ns)

    def _listed(self, item: Item) -> Facts:
        assert isinstance(item, PodList)
        for pod in item.pods:
            self._statuses(pod.get("status"), item.evidence)
        return self._release(item.ts_ns)

    def _statuses(self, status: Any, evidence: Evidence) -> None:  # noqa: ANN401 - decoded JSON
        for told in _oom_killed(status):
            container_id = bare_container_id(told.get("containerID"))
            ended_ns = api_time(told.get("finishedAt"))
            if container_id is not None and ended_ns is not None:
                self._kills.status_told(self.context, container_id, ended_ns, evidence)


def _oom_killed(status: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - decoded JSON
    """Ends in a pod's status that say so, the older one of a container first."""
    if not isinstance(status, dict):
        return
    for key in _STATUS_LISTS:
        for entry in status.get(key) or ():
            for state in ("lastState", "state"):
                ended = (entry.get(state) or {}).get("terminated") or {}
                if ended.get("reason") == "OOMKilled":
                    yield ended
