"""Ends: pods that the kubelet stops as a whole, and kubelets that end by themselves.

Since 1.22 a pod worker logs (at ``-v=4``) why it stops a pod, and how much time it gives. The
shutdown manager logs so at ``-v=1``, before the worker does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal

import msgspec

from kubeledger.ingest.correlate.assembler import Assembler, StructuredHandler
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import Waiting
from kubeledger.ingest.correlate.links import PodLink
from kubeledger.ingest.klog.last_words import FATAL, first_line, is_of_systemd, reason_of
from kubeledger.ingest.messages.podref import (
    event_line,
    structured_pod,
    text_value,
)
from kubeledger.ingest.sources.facts import Fact, Facts
from kubeledger.ingest.sources.items import LogLine
from kubeledger.model.bodies.lifecycle import PodTerminating
from kubeledger.model.bodies.node import KubeletExited
from kubeledger.model.units import NS_PER_S, whole_number

__all__ = ["EndingsAssembler"]

Reason = Literal["deleted", "removed", "orphaned", "ended", "killed", "shutdown"]

_BEGINNINGS: Mapping[str, Reason] = {
    "Pod has been deleted and must be killed": "removed",
    "Pod indicated lifecycle completed naturally and should now terminate": "ended",
    "Pod is being evicted by the kubelet, begin teardown": "killed",
    "Pod is being removed by the kubelet, begin teardown": "removed",
    "Pod is in a terminal phase (success/failed), begin teardown": "ended",
    "Pod is marked for graceful deletion, begin teardown": "deleted",
    "Pod is orphaned and must be torn down": "orphaned",
    "Shutdown manager killing pod with gracePeriod": "shutdown",
    "Stopping PodSandbox for pod, because all other containers are dead": "ended",
}
_GAVE_UP = (
    "command failed",
    "Failed to bootstrap a configuration controller",
    "Failed to construct kubelet dependencies",
    "Failed to create a new kubelet configuration",
    "Failed to create listener for podResources endpoint",
    "Failed to initialize internal modules",
    "failed to intialize internal modules",  # as 1.21 writes it
    "Failed to initialize logging",
    "Failed to listen and serve",
    "Failed to load kubelet config file",
    "Failed to parse kubelet flag",
    "Failed to precedence kubeletConfigFlag",
    "Failed to run kubelet",
    "Failed to serve",
    "Failed to set feature gates from initial flags-based config",
    "Failed to start ContainerManager",
    "Failed to start cAdvisor",
    "Failed to validate kubelet configuration",
    "Failed to validate kubelet flags",
    "Kubelet failed to get node info",
    "No valid client certificate is found and the server is responsive, exiting.",
    "The currently active client certificate has expired and the server is responsive, exiting.",
    "Unknown command",
)
"""Errors after which the kubelet calls os.Exit (cmd/kubelet, pkg/kubelet of 1.21 to 1.36)."""


class EndingsAssembler(Assembler):
    """Pods that are stopped as a whole; kubelets that give up."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._links = context.links
        self._open: dict[PodLink, tuple[int, Waiting]] = {}

    def structured(self) -> Mapping[str, StructuredHandler]:
        """Messages since 1.21."""
        handlers: dict[str, StructuredHandler] = {
            message: partial(self._begins, reason=reason) for message, reason in _BEGINNINGS.items()
        }
        handlers["Pod terminating with grace period"] = self._grace
        handlers["Pod is being synced for the first time"] = self._first_synced
        handlers["Stopping PodSandbox for pod, will start new one"] = self._replaces
        handlers["Created PodSandbox for pod"] = self._replaced
        handlers["Event occurred"] = self._event
        handlers |= dict.fromkeys((*_GAVE_UP, FATAL), self._gave_up)
        return handlers

    def _release(self, line: LogLine) -> list[Fact]:
        return self._links.queue.release(line.ts_ns)

    def _pod(self, line: LogLine) -> PodLink | None:
        values = line.values or {}
        ref = structured_pod(values.get("pod"), values.get("podUID"))
        if ref is not None:
            return self._links.pod(self.context, ref, line)
        uid = values.get("podUID")
        return self._links.pod_by_uid(self.context, uid) if isinstance(uid, str) else None

    def _begins(self, line: LogLine, *, reason: Reason) -> Facts:
        pod = self._pod(line)
        if pod is not None:
            waiting = self._of_process(pod)
            if waiting is None:
                waiting = self._tell(pod, line, reason)
            waiting.join(line.evidence)
            if reason == "shutdown":
                self._given(waiting, text_value(line, "gracePeriod"))
        return self._release(line)

    def _replaces(self, line: LogLine) -> Facts:
        """The sandbox is gone or changed: what runs in the pod goes with it."""
        pod = self._pod(line)
        if pod is not None:
            pod.replaces_sandbox = True
        return self._release(line)

    def _replaced(self, line: LogLine) -> Facts:
        pod = self._pod(line)
        if pod is not None:
            pod.replaces_sandbox = False
        return self._release(line)

    def _grace(self, line: LogLine) -> Facts:
        pod = self._pod(line)
        waiting = None if pod is None else self._of_process(pod)
        if waiting is not None:
            waiting.join(line.evidence)
            self._given(waiting, text_value(line, "gracePeriod"))
            waiting.settle()
        return self._release(line)

    def _event(self, line: LogLine) -> Facts:
        event = event_line(line, ("DeadlineExceeded",))
        if event is not None:
            self._links.pod(self.context, event.pod, line).past_deadline = True
        return self._release(line)

    def _first_synced(self, line: LogLine) -> Facts:
        """A worker that is new knows of no end: a static pod comes back with its UID."""
        pod = self._pod(line)
        if pod is not None:
            pod.ending, pod.past_deadline = None, False
        return self._release(line)

    def _of_process(self, pod: PodLink) -> Waiting | None:
        """The end that the present kubelet process has begun for a pod."""
        epoch, waiting = self._open.get(pod, (-1, None))
        return waiting if epoch == self._links.epoch and pod.ending is not None else None

    def _tell(self, pod: PodLink, line: LogLine, reason: Reason) -> Waiting:
        body = PodTerminating(
            namespace=pod.namespace,
            pod=pod.name,
            pod_uid=pod.uid,
            reason=reason,
            grace_period_s=None,
        )
        cause = pod.eviction or pod.victim if reason == "killed" else pod.deleted
        fact = Fact(line.ts_ns, body, (line.evidence,), cause=cause)
        waiting = self._links.queue.hold(fact)
        self._open[pod] = self._links.epoch, waiting
        pod.ending = fact
        return waiting

    @staticmethod
    def _given(waiting: Waiting, told: str) -> None:
        fact, grace_s = waiting.fact, whole_number(told)
        if fact is not None and isinstance(fact.body, PodTerminating) and grace_s is not None:
            fact.body = msgspec.structs.replace(fact.body, grace_period_s=grace_s)

    def _gave_up(self, line: LogLine) -> Facts:
        """A process ends once: what is written after the first such line only follows from it."""
        reason, last = reason_of(line), self._links.kubelet_exit
        if reason is None or (last is not None and self._is_same(line, last)):
            return self._release(line)
        error = text_value(line, "err")
        message = f"{line.message}: {error}" if error else first_line(line.message)
        body = KubeletExited(pid=line.pid, reason=reason, message=message)
        refused = self._links.refused_state
        if refused is not None and line.ts_ns - refused.ts_ns > NS_PER_S:
            refused = None
        fact = Fact(line.ts_ns, body, (line.evidence,), refused)
        self._links.kubelet_exit = self._links.queue.add(fact)
        return self._release(line)

    @staticmethod
    def _is_same(line: LogLine, last: Fact) -> bool:
        """Whether a line tells of an end that was told before; no other start came between."""
        assert isinstance(last.body, KubeletExited)
        same = line.pid == last.body.pid
        soon = line.ts_ns - last.ts_ns < NS_PER_S
        return is_of_systemd(line) or (same and (soon or line.pid is not None))
