"""Kills by the kernel, from its log, the kubelet's lines and the statuses of containers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from kubeledger.ingest.correlate.assembler import Assembler, Method, nothing
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.instances import entries_of
from kubeledger.ingest.correlate.oom_kills import OomKills, Sighting
from kubeledger.ingest.correlate.sync_loop import SyncLoop
from kubeledger.ingest.messages.podref import bare_container_id
from kubeledger.ingest.sources.items import KernelReport, PodList
from kubeledger.ingest.sources.times import api_time, go_time
from kubeledger.model.record import Evidence

__all__ = ["OomAssembler"]

_SYSTEM = re.compile(r"System OOM encountered(?:, victim process: (.*), pid: (\d+))?")


class OomAssembler(Assembler):
    """Out-of-memory kills."""

    def __init__(self, context: BundleContext, sync_loop: SyncLoop) -> None:
        super().__init__(context)
        self._sync_loop = sync_loop
        self.kills = OomKills(context, self.queue)

    def messages(self) -> Mapping[str, Method]:
        """Statuses in the log, the event about the node, and lines of cadvisor."""
        return {
            "Patch status for pod": self._patched,
            "Status for pod updated successfully": self._status,
            "Got sys oom event": nothing,
            "Event occurred": self._event,
            "Created an OOM event in container": self._seen,
            "Added an OOM kill event": self._limit,
        }

    def takes(self) -> Mapping[type, Callable[[Any], None]]:
        """Kernel reports and pod lists."""
        return {KernelReport: self.kills.reported, PodList: self._listed}

    def _seen(self, entry: Entry) -> None:
        logged_ns, cgroup = go_time(entry.text("time")), entry.text("container")
        seen = Sighting(entry.ts_ns, logged_ns, cgroup, entry.evidence)
        self.kills.sighted(seen, process=self._sync_loop.process)

    def _limit(self, entry: Entry) -> None:
        logged_ns, cgroup = go_time(entry.text("time")), entry.text("container")
        self.kills.limit_sighted(logged_ns, cgroup, entry.evidence)

    def _event(self, entry: Entry) -> None:
        """``SystemOOM`` of the node."""
        match = _SYSTEM.match(entry.text("message"))
        if match is not None and entry.text("reason") == "SystemOOM":
            pid = None if match[2] is None else int(match[2])
            at_ns = entry.ts_ns
            seen = Sighting(at_ns, at_ns, None, entry.evidence, match[1], pid)
            self.kills.sighted(seen, process=self._sync_loop.process)

    def _patched(self, entry: Entry) -> None:
        patch = entry.text("patch")
        if "OOMKilled" not in entry.line.message and "OOMKilled" not in patch:
            return
        try:
            state = msgspec.json.decode(patch)
        except msgspec.DecodeError:
            return
        self._statuses((state or {}).get("status"), entry.evidence)

    def _status(self, entry: Entry) -> None:
        if "OOMKilled" in entry.line.text:
            self._statuses(entry.values.get("status"), entry.evidence)

    def _listed(self, item: PodList) -> None:
        for pod in item.pods:
            self._statuses(pod.get("status"), item.evidence)

    def _statuses(self, status: Any, evidence: Evidence) -> None:  # noqa: ANN401 - decoded JSON
        for state in _oom_killed(status):
            container_id = bare_container_id(state.get("containerID"))
            ended_ns = api_time(state.get("finishedAt"))
            if container_id is not None and ended_ns is not None:
                self.kills.status_reported(container_id, ended_ns, evidence)


def _oom_killed(status: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - decoded JSON
    """Ends in a pod's status that say so, the older one of a container first."""
    if not isinstance(status, dict):
        return
    for entry in entries_of(status):
        for state in ("lastState", "state"):
            ended = (entry.get(state) or {}).get("terminated") or {}
            if ended.get("reason") == "OOMKilled":
                yield ended
