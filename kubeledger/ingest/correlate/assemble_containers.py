"""Containers that start, die and start again, from the PLEG's events.

The PLEG tells an ID and no name (see ``container_names``). An ID seen for the first time is a
restart when its name ran in the pod before: an earlier ID was seen, or the status counts
restarts. What a kubelet process's first relist finds was not restarted by that process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kubeledger.ingest.correlate.assembler import Assembler, StructuredHandler
from kubeledger.ingest.correlate.container_bodies import (
    is_sandbox,
    restarted_body,
    started_body,
    was_killed_later,
    why_restarted,
)
from kubeledger.ingest.correlate.container_names import ContainerNames
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import Waiting
from kubeledger.ingest.correlate.instances import is_later, ran_by
from kubeledger.ingest.correlate.links import ContainerLink, PodLink
from kubeledger.ingest.klog.line_values import integer
from kubeledger.ingest.messages.pleg_lines import pleg_event
from kubeledger.ingest.messages.podref import (
    FORMATTED_POD,
    PodRef,
    bare_container_id,
    event_line,
    formatted_pod,
    structured_pod,
    text_value,
)
from kubeledger.ingest.sources.facts import Fact, Facts
from kubeledger.ingest.sources.items import LogLine
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    RestartBackedOff,
)
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S, parse_go_duration

__all__ = ["ContainersAssembler"]

_BACK_OFF = re.compile(rf"back-off (\S+) restarting failed container=(\S+) pod=({FORMATTED_POD})")
_UNSTARTED = re.compile(r'failed to \\*"StartContainer\\*" for \\*"([^"\\]+)\\*" with ')

_STARTED = "ContainerStarted"
_FIRST_RELIST_NS = NS_PER_S * 9 // 10
"""The PLEG waits a second between relists, so what follows faster is of the first."""
_UNSEEN_NS = 3 * NS_PER_S
"""What has run for longer was listed by a relist before, save that a busy PLEG took longer."""
_BACK_OFF_WAIT_NS = NS_PER_S


class ContainersAssembler(Assembler):
    """Container starts, deaths, restarts and back-offs."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._links = context.links
        self._first_relist: tuple[int, int] | None = None
        self._names = ContainerNames(context)
        self._exit_codes: dict[str, int] = {}
        self._back_offs: dict[tuple[PodLink, str], tuple[Waiting, bool]] = {}

    def structured(self) -> Mapping[str, StructuredHandler]:
        """Messages since 1.21, and the events of 1.20."""
        handlers: dict[str, StructuredHandler] = {}
        handlers["SyncLoop (PLEG): event for pod"] = self._pleg
        handlers["SyncLoop (PLEG): pod does not exist, ignore irrelevant event"] = self._pleg_gone
        handlers["Generic (PLEG): container finished"] = self._finished
        handlers["Created PodSandbox for pod"] = self._sandbox
        handlers["No sandbox for pod can be found. Need to start a new one"] = self._no_sandbox
        handlers["Back-off restarting failed container"] = self._back_off
        handlers["Error syncing pod, skipping"] = self._back_off
        handlers["Adding new entry to the queue for processing"] = self._labelled
        handlers["Event occurred"] = self._event
        return handlers

    def finish(self, ts_ns: int) -> Facts:
        """What still waited."""
        return self._links.queue.drain()

    def _release(self, line: LogLine) -> list[Fact]:
        return self._links.queue.release(line.ts_ns)

    # -- what names an ID -----------------------------------------------------------------

    def _sandbox(self, line: LogLine) -> Facts:
        ref = structured_pod((line.values or {}).get("pod"))
        if ref is not None:
            pod = self._links.pod(self.context, ref, line)
            self._names.note_sandbox(pod, text_value(line, "podSandboxID"))
        return self._release(line)

    def _no_sandbox(self, line: LogLine) -> Facts:
        ref = structured_pod((line.values or {}).get("pod"))
        if ref is not None:
            self._links.pod(self.context, ref, line).needs_sandbox = True
        return self._release(line)

    def _labelled(self, line: LogLine) -> Facts:
        """The log rotation of newer kubelets writes IDs with their labels."""
        values = line.values or {}
        labels = values.get("labels")
        if isinstance(labels, dict) and values.get("id"):
            uid = str(labels.get("io.kubernetes.pod.uid") or "")
            pod = self._links.pod_by_uid(self.context, uid)
            name = labels.get("io.kubernetes.container.name")
            if pod is not None and name:
                self._links.container(str(values["id"]), pod).name = str(name)
        return self._release(line)

    def _finished(self, line: LogLine) -> Facts:
        exit_code = integer((line.values or {}).get("exitCode"))
        container_id = bare_container_id((line.values or {}).get("containerID"))
        if container_id is not None and exit_code is not None:
            self._exit_codes[container_id] = exit_code
        return self._release(line)

    def _event(self, line: LogLine) -> Facts:
        event = event_line(line, ("Started", "BackOff"))
        if event is None:
            return self._release(line)
        if event.reason == "Started" and event.container is not None:
            pod = self._links.pod(self.context, event.pod, line)
            pod.started[event.container] = line.evidence
        elif event.reason == "BackOff":
            pod = self._links.pod(self.context, event.pod, line)
            self._back_off_event(pod, event.container, line.evidence)
        return self._release(line)

    # -- the PLEG -------------------------------------------------------------------------

    def _pleg(self, line: LogLine) -> Facts:
        event = (line.values or {}).get("event")
        uid, kind, data = pleg_event(event)
        ref = structured_pod((line.values or {}).get("pod"), uid)
        if ref is not None:
            self._relisted(self._links.pod(self.context, ref, line), kind, data, line)
        return self._release(line)

    def _pleg_gone(self, line: LogLine) -> Facts:
        """A pod that the kubelet let go; it is known only if it was here before."""
        uid, kind, data = pleg_event((line.values or {}).get("event"))
        pod = self._links.pod_by_uid(self.context, uid) if uid else None
        if pod is not None:
            self._relisted(pod, kind, data, line)
        return self._release(line)

    def _relisted(self, pod: PodLink, kind: str, container_id: str, line: LogLine) -> None:
        self._links.sync_loop_turned()
        if kind not in ("ContainerStarted", "ContainerDied") or not container_id:
            return
        found = self._is_first_relist(line.ts_ns)
        container = self._links.container(container_id, pod)
        if kind == "ContainerDied" and container.died is not None:
            return  # a kubelet that starts tells once more of what has ended
        instance = self._links.instance(self.context, container_id)
        # What was killed or listed has run before: the line about its start is missing. A hook
        # fails right behind the start, which no relist need have seen.
        had_run = ran_by(instance, line.ts_ns - _UNSEEN_NS) or was_killed_later(container)
        is_unseen = container.seen_ts_ns is None
        is_new = is_unseen and not (kind == "ContainerDied" and had_run)
        # What comes and goes between two relists is told by its end only, as an old sandbox is.
        follows = is_new and not found and (kind == _STARTED or self._names.has_sandbox(pod))
        self._names.find(container, line.ts_ns, may_follow=follows)
        container.seen_ts_ns = container.seen_ts_ns or line.ts_ns
        started = pod.started.pop(container.name, None) if container.name and is_new else None
        found = found and started is None and not self._began_in_epoch(container_id)
        current = pod.current.get(container.name or "")
        previous = container.follows if current == container_id else current
        if current is None and follows:
            previous = self._names.predecessor(container, line.ts_ns)
        evidence = (line.evidence,) if started is None else (started, line.evidence)
        if kind == _STARTED:
            fact = Fact(line.ts_ns, started_body(container), evidence)
            container.died = None  # a sandbox is not ready before it is
        else:
            fact = Fact(line.ts_ns, self._died_body(container), (line.evidence,))
            container.died = fact
            fact.cause = container.kill or self._links.oom_of(self.context, fact, instance)
        self._links.queue.add(fact)
        if container.name and kind == _STARTED:
            pod.backed_off.discard(container.name)
            pod.unstarted.discard(container.name)
        if container.name and (is_unseen or kind == _STARTED):
            later = is_later(instance, self._links.instance(self.context, previous or ""))
            if kind == _STARTED or not found or later:
                pod.current[container.name] = container_id
            ran_here = kind == _STARTED or previous is not None
            if is_new and not found and ran_here:
                self._restarted(container, previous, evidence, line.ts_ns)

    def _is_first_relist(self, ts_ns: int) -> bool:
        """Whether the event is of the first relist of its kubelet process."""
        if self._links.epoch == 0:
            return False
        if self._first_relist is None or self._first_relist[0] != self._links.epoch:
            self._first_relist = (self._links.epoch, ts_ns)
        return ts_ns - self._first_relist[1] < _FIRST_RELIST_NS

    def _began_in_epoch(self, container_id: str) -> bool:
        """Whether the status says that the present process started it (whole seconds)."""
        instance = self._links.instance(self.context, container_id)
        began = None if instance is None else instance.started_ts_ns
        epoch = self._links.epoch_ts_ns
        return began is not None and epoch is not None and began > epoch

    def _died_body(self, container: ContainerLink) -> ContainerDied:
        exit_code = self._exit_codes.pop(container.container_id, None)
        instance = self._links.instance(self.context, container.container_id)
        if exit_code is None and instance is not None:
            exit_code = instance.exit_code
        return ContainerDied(
            namespace=container.pod.namespace,
            pod=container.pod.name,
            pod_uid=container.pod.uid,
            container=container.name,
            container_id=container.container_id,
            sandbox=is_sandbox(container),
            exit_code=exit_code,
        )

    def _restarted(
        self,
        container: ContainerLink,
        previous: str | None,
        evidence: tuple[Evidence, ...],
        ts_ns: int,
    ) -> None:
        instance = self._links.instance(self.context, container.container_id)
        count = None if instance is None else instance.restart_count
        if (previous is None and not count) or container.name is None:
            return
        before = None if previous is None else self._links.containers.get(previous)
        reason, cause = why_restarted(before)
        body = restarted_body(container, previous, reason, count)
        self._links.queue.add(Fact(ts_ns, body, evidence, cause=cause))

    # -- back-off -------------------------------------------------------------------------

    def _back_off(self, line: LogLine) -> Facts:
        text = text_value(line, "err")
        self._note_unstarted(line, structured_pod((line.values or {}).get("pod")), text)
        return self._backed_off(line, text)

    def _note_unstarted(self, line: LogLine, ref: PodRef | None, text: str) -> None:
        """Take down which containers of a pod could not be started."""
        names = {match[1] for match in _UNSTARTED.finditer(text)}
        if ref is not None and names:
            self._links.pod(self.context, ref, line).unstarted |= names

    def _backed_off(self, line: LogLine, text: str) -> Facts:
        for match in _BACK_OFF.finditer(text):
            ref = formatted_pod(match[3])
            if ref is None:
                continue
            pod = self._links.pod(self.context, ref, line)
            ended = self._names.backed_off(pod, match[2], line.ts_ns)
            if ended is not None:
                self._restarted_before(ended, line)
            body = RestartBackedOff(
                namespace=pod.namespace,
                pod=pod.name,
                pod_uid=pod.uid,
                container=match[2],
                back_off_s=parse_go_duration(match[1]) // NS_PER_S,
            )
            if self._is_retold(pod, body, line):
                continue
            cause = self._last_end(pod, match[2])
            fact = Fact(line.ts_ns, body, (line.evidence,), cause=cause)
            waiting = self._links.queue.hold(fact, _BACK_OFF_WAIT_NS)
            self._back_offs[pod, match[2]] = (waiting, _is_by_worker(line))
            pod.backed_off.add(match[2])
        return self._release(line)

    def _restarted_before(self, ended: ContainerLink, line: LogLine) -> None:
        """A container that waits has ended twice, so its last instance was a restart.

        Source: kuberuntime_manager.go doBackOff: the first restart makes the entry, and waits
        for nothing.
        """
        body = restarted_body(ended, None, None, None)
        self._links.queue.add(Fact(ended.seen_ts_ns or line.ts_ns, body, (line.evidence,)))

    def _is_retold(self, pod: PodLink, body: RestartBackedOff, line: LogLine) -> bool:
        """The pod worker repeats what the runtime manager decided, once for each decision."""
        waiting, told_by_worker = self._back_offs.get((pod, body.container), (None, True))
        if waiting is None or waiting.fact is None or told_by_worker or not _is_by_worker(line):
            return False
        if waiting.fact.body != body:
            return False  # it says something else, which must not be lost
        waiting.join(line.evidence)
        self._back_offs[pod, body.container] = (waiting, True)
        return True

    def _back_off_event(self, pod: PodLink, container: str | None, evidence: Evidence) -> None:
        for (owner, name), (waiting, _) in self._back_offs.items():
            if owner is pod and container in (None, name):
                waiting.join(evidence)

    def _last_end(self, pod: PodLink, container: str) -> Fact | None:
        link = self._links.containers.get(pod.current.get(container, ""))
        return None if link is None else link.died or link.kill


def _is_by_worker(line: LogLine) -> bool:
    """The pod worker's line, not the runtime manager's; old klog JSON names no file."""
    return line.message.startswith("Error syncing pod")
