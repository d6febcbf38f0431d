"""Ends: pods that the kubelet stops as a whole, and kubelets that end by themselves.

Since 1.22 a pod worker logs (at ``-v=4``) why it stops a pod, and how much time it gives. The
shutdown manager logs so at ``-v=1``, before the worker does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

from kubeledger.ingest.correlate.assembler import Entry, reads, reads_events
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.evictions import EvictionsAssembler
from kubeledger.ingest.correlate.holdback import Waiting, shown
from kubeledger.ingest.correlate.preemption import PreemptionAssembler
from kubeledger.ingest.correlate.registers import Pod, PodAssembler, Registers, about_pod
from kubeledger.ingest.correlate.resource_managers import ResourceManagerAssembler
from kubeledger.ingest.klog.last_words import FATAL, first_line, is_of_systemd, reason_of
from kubeledger.ingest.sources.facts import Fact
from kubeledger.ingest.sources.items import LogLine
from kubeledger.model.bodies.lifecycle import PodTerminating
from kubeledger.model.bodies.node import KubeletExited
from kubeledger.model.units import NS_PER_S, whole_number

Reason = Literal["deleted", "removed", "orphaned", "ended", "killed", "shutdown"]


class EndingsAssembler(PodAssembler):
    """Pods that are stopped as a whole; kubelets that give up.

    Attributes:
        begun: pod -> the fact that its worker stops it, of the last kubelet process that did.
        past_deadline: pods of which an event says that their deadline passed.
        without_sandbox: pods whose sandbox was stopped, and no new one is there yet.
        kubelet_exit: what ended the last kubelet, if no signal from outside did; until the next.
    """

    def __init__(
        self,
        context: BundleContext,
        registers: Registers,
        preemption: PreemptionAssembler,
        evictions: EvictionsAssembler,
        managers: Sequence[ResourceManagerAssembler[Any]],
    ) -> None:
        super().__init__(context, registers)
        self.begun: dict[Pod, Fact] = {}
        self.past_deadline: set[Pod] = set()
        self.without_sandbox: set[Pod] = set()
        self.kubelet_exit: Fact | None = None
        self._preemption = preemption
        self._evictions = evictions
        self._managers = managers
        self._open: dict[Pod, tuple[int, Waiting[PodTerminating]]] = {}

    @about_pod("Pod is stopped")
    def _begins(self, entry: Entry, pod: Pod) -> None:
        reason = cast(Reason, entry.text("because"))
        waiting = self._of_process(pod) or self._record(pod, entry, reason)
        waiting.join(entry.evidence)
        if reason == "shutdown":
            _give(waiting, entry)

    @about_pod("Stopping PodSandbox for pod, will start new one")
    def _replaces(self, entry: Entry, pod: Pod) -> None:
        """The sandbox is gone or changed: what runs in the pod goes with it."""
        self.without_sandbox.add(pod)

    @about_pod("Created PodSandbox for pod")
    def _replaced(self, entry: Entry, pod: Pod) -> None:
        self.without_sandbox.discard(pod)

    @about_pod("Pod terminating with grace period")
    def _grace(self, entry: Entry, pod: Pod) -> None:
        """On a slow node the worker comes to it seconds later: that is told, too."""
        waiting = self._of_process(pod)
        if waiting is not None:
            news = waiting.body.grace_period_s is None and _grace_in(entry) is not None
            if news and not waiting.is_open:
                fact = shown(entry, waiting.body, cause=waiting.fact)
                waiting = self.queue.hold(fact)
                self._open[pod] = self._sync_loop.process, waiting
            waiting.join(entry.evidence)
            _give(waiting, entry)
            waiting.settle()

    @reads_events("DeadlineExceeded")
    def _event(self, entry: Entry) -> None:
        event = entry.event()
        if event is not None:
            self.past_deadline.add(self._pods.named(event.pod, entry))

    @about_pod("Pod is being synced for the first time")
    def _first_synced(self, entry: Entry, pod: Pod) -> None:
        """A worker that is new knows of no end: a static pod comes back with its UID."""
        self.begun.pop(pod, None)
        self.past_deadline.discard(pod)

    def _of_process(self, pod: Pod) -> Waiting[PodTerminating] | None:
        """The end that the present kubelet process has begun for a pod."""
        process, waiting = self._open.get(pod, (-1, None))
        return waiting if process == self._sync_loop.process and pod in self.begun else None

    def _record(self, pod: Pod, entry: Entry, reason: Reason) -> Waiting[PodTerminating]:
        body = PodTerminating(**pod.names, reason=reason, grace_period_s=None)
        cause = pod.deleted
        if reason == "killed":
            cause = self._evictions.of(pod) or self._preemption.victims.get(pod)
        waiting = self.queue.hold(shown(entry, body, cause=cause))
        self._open[pod] = self._sync_loop.process, waiting
        self.begun[pod] = waiting.fact
        return waiting

    @reads("The kubelet gives up", FATAL)
    def _gave_up(self, entry: Entry) -> None:
        """A process ends once: what is written after the first such line only follows from it."""
        line, last = entry.line, self.kubelet_exit
        reason = reason_of(line)
        if reason is None:
            return
        line.is_told = True
        if last is not None and _is_same(line, last):
            return
        error = entry.text("err")
        message = f"{line.message}: {error}" if error else first_line(line.message)
        body = KubeletExited(pid=line.pid, reason=reason, message=message)
        refused = [each.refused_state for each in self._managers if each.refused_state is not None]
        last_refused = max(refused, key=lambda fact: fact.ts_ns, default=None)
        if last_refused is not None and line.ts_ns - last_refused.ts_ns > NS_PER_S:
            last_refused = None
        self.kubelet_exit = self.queue.add(shown(line, body, cause=last_refused))


def _give(waiting: Waiting[PodTerminating], entry: Entry) -> None:
    """Note the grace period, if the line shows it."""
    grace_s = _grace_in(entry)
    if grace_s is not None:
        waiting.learn(grace_period_s=grace_s)


def _grace_in(entry: Entry) -> int | None:
    return whole_number(entry.text("gracePeriod"))


def _is_same(line: LogLine, last: Fact) -> bool:
    """Whether a line reports an end that was reported before; no other start came between."""
    assert isinstance(last.body, KubeletExited)
    same = line.pid == last.body.pid
    soon = line.ts_ns - last.ts_ns < NS_PER_S
    return is_of_systemd(line) or (same and (soon or line.pid is not None))
