"""The graceful shutdown of the node, step by step; what is killed in it, other records tell.

Pods are killed in groups by priority, all of a group at once, and the next group when these have
ended or their period is over (``podManager.killPods``; up to 1.22 the critical pods wait).
Source: pkg/kubelet/nodeshutdown of 1.20 to 1.36.
"""

from __future__ import annotations

import re
from typing import Any

from kubeledger.ingest.correlate.assembler import Assembler, Entry, reads
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import Waiting, shown
from kubeledger.model.bodies.stages import ShutdownProgressed
from kubeledger.model.units import NS_PER_S

_GROUP = re.compile(r"Priority:(\d+) ShutdownGracePeriodSeconds:(\d+)")
_DETECTED, _CANCELLED = ("true", "shutdown", "preshutdown"), ("false", "cancel")
_SECONDS = re.compile(r"(?:(\d+)m)?(\d+)s?")
_TOGETHER_NS = 5 * NS_PER_S
"""Within so long all pods of a group are told: each is killed by a goroutine of its own."""
_EVIDENCE_MAX = 4


class ShutdownAssembler(Assembler):
    """Steps of a shutdown."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._groups: list[tuple[int, int]] = []
        self._detected: Waiting[ShutdownProgressed] | None = None
        self._killing: dict[int | None, Waiting[ShutdownProgressed]] = {}

    @reads("Creating node shutdown manager")
    def _configured(self, entry: Entry) -> None:
        """Priority and period of each group; without them, of a kubelet that has only two."""
        text = entry.text("shutdownGracePeriodByPodPriority")
        self._groups = sorted((int(low), int(period)) for low, period in _GROUP.findall(text))
        self._detected = None

    @reads("Shutdown manager detected new shutdown event, isNodeShuttingDownNow")
    def _announced(self, entry: Entry) -> None:
        """Each is said in two lines, of which the older kubelets have the first."""
        event, known = entry.text("event"), self._detected
        if event in _CANCELLED:
            if known is not None:
                self._detected = None
                self._step(entry, step="cancelled")
        elif event in _DETECTED and known is None:
            self._detected = self._step(entry, step="detected")
            self._killing.clear()
        elif known is not None:
            known.join(entry.evidence)

    @reads("Shutdown manager processing shutdown event")
    def _processing(self, entry: Entry) -> None:
        if self._detected is None:
            self._detected = self._step(entry, step="detected")
        self._detected.join(entry.evidence)

    @reads("Pod is stopped")
    def _kill(self, entry: Entry) -> None:
        if entry.text("because") != "shutdown":
            return
        priority, period_s = self._group_of(entry)
        group = self._killing.get(priority)
        if group is not None:
            if group.is_open:
                group.learn(pods=(group.body.pods or 0) + 1)
            if len(group.fact.evidence) < _EVIDENCE_MAX:
                group.join(entry.evidence)
            return
        self._killing[priority] = self._step(
            entry, step="killing", priority=priority, grace_period_s=period_s, pods=1
        )
        self._killing[priority].due_ns = entry.ts_ns + _TOGETHER_NS

    def _group_of(self, entry: Entry) -> tuple[int | None, int | None]:
        """The group with the highest priority that the pod's is not below; the lowest for others.

        Of a pod that no list shows, the priority is not known.
        """
        subject = self.context.completed(entry.subject, entry.ts_ns)
        if subject.uid not in self.context.pods or not self._groups:
            return None, None
        own = self.context.spec_of(subject.uid).get("priority") or 0
        return max((group for group in self._groups if group[0] <= own), default=self._groups[0])

    @reads("Shutdown manager pod killing time out")
    def _late(self, entry: Entry) -> None:
        period = _SECONDS.match(entry.text("gracePeriod"))
        period_s = None if period is None else 60 * int(period[1] or 0) + int(period[2])
        priority = entry.number("priority")
        self._step(entry, step="timed_out", priority=priority, grace_period_s=period_s)

    @reads("Shutdown manager completed processing shutdown event, node will shutdown shortly")
    def _completed(self, entry: Entry) -> None:
        self._step(entry, step="completed")

    def _step(self, entry: Entry, **fields: Any) -> Waiting[ShutdownProgressed]:  # noqa: ANN401
        message = entry.line.message
        return self.queue.hold(shown(entry, ShutdownProgressed(message=message, **fields)))
