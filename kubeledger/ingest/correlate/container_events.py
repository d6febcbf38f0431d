"""Containers that start, die and start again, from the PLEG's events.

The PLEG shows an ID and no name (see ``container_names``). An ID seen for the first time is a
restart when its name ran in the pod before: an earlier ID was seen, or the status counts
restarts. What a kubelet process's first relist finds was not restarted by that process.
"""

from __future__ import annotations

import re

from kubeledger.ingest.correlate.assembler import Entry, reads
from kubeledger.ingest.correlate.container_names import ContainerNames
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import Waiting, shown
from kubeledger.ingest.correlate.instances import is_later, ran_by
from kubeledger.ingest.correlate.oom import OomAssembler
from kubeledger.ingest.correlate.registers import (
    Container,
    Pod,
    PodAssembler,
    Registers,
    about_pod,
)
from kubeledger.ingest.messages.pleg_lines import pleg_event
from kubeledger.ingest.messages.podref import FORMATTED_POD, formatted_pod
from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerRestarted,
    ContainerStarted,
    RestartBackedOff,
)
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S, parse_go_duration

__all__ = ["ContainerEventsAssembler"]

_BACK_OFF = re.compile(
    rf"[Bb]ack-off (\S+) restarting failed container=(\S+) pod=({FORMATTED_POD})"
)
_UNSTARTED = re.compile(r'failed to \\*"StartContainer\\*" for \\*"([^"\\]+)\\*" with ')
_STARTED = "ContainerStarted"
_FIRST_RELIST_NS = NS_PER_S * 9 // 10
"""The PLEG waits a second between relists, so what follows faster is of the first."""
_UNSEEN_NS = 3 * NS_PER_S
"""What has run for longer was listed by a relist before, save that a busy PLEG took longer."""


class ContainerEventsAssembler(PodAssembler):
    """Container starts, deaths, restarts and back-offs."""

    def __init__(
        self,
        context: BundleContext,
        registers: Registers,
        names: ContainerNames,
        oom: OomAssembler,
    ) -> None:
        super().__init__(context, registers)
        self._names = names
        self._oom = oom
        self._first_relist: tuple[int, int] | None = None
        self._exit_codes: dict[str, int] = {}
        self._back_offs: dict[tuple[Pod, str], tuple[Waiting[RestartBackedOff], bool]] = {}

    # -- what names an ID -----------------------------------------------------------------

    @about_pod("Created PodSandbox for pod")
    def _sandbox(self, entry: Entry, pod: Pod) -> None:
        self._names.note_sandbox(pod, entry.text("podSandboxID"))

    @about_pod("No sandbox for pod can be found. Need to start a new one")
    def _no_sandbox(self, entry: Entry, pod: Pod) -> None:
        self._containers.of(pod).needs_sandbox = True

    @reads("Adding new entry to the queue for processing")
    def _labelled(self, entry: Entry) -> None:
        """The log rotation of newer kubelets writes IDs with their labels."""
        labels, container_id = entry.values.get("labels"), entry.values.get("id")
        if isinstance(labels, dict) and container_id:
            pod = self._pods.with_uid(str(labels.get("io.kubernetes.pod.uid") or ""))
            name = labels.get("io.kubernetes.container.name")
            if pod is not None and name:
                self._containers.make(str(container_id), pod).name = str(name)

    @reads("Generic (PLEG): container finished")
    def _finished(self, entry: Entry) -> None:
        container_id, exit_code = entry.container_id, entry.number("exitCode")
        if container_id is not None and exit_code is not None:
            self._exit_codes[container_id] = exit_code

    @reads("Event occurred")
    def _event(self, entry: Entry) -> None:
        event = entry.event("Started", "BackOff")
        if event is None:
            return
        pod = self._pods.named(event.pod, entry)
        if event.reason == "Started" and event.container is not None:
            self._containers.of(pod).started[event.container] = entry.evidence
        elif event.reason == "BackOff":
            for (owner, name), (waiting, _) in self._back_offs.items():
                if owner is pod and event.container in (None, name):
                    waiting.join(entry.evidence)

    # -- the PLEG -------------------------------------------------------------------------

    @reads(
        "SyncLoop (PLEG): event for pod",
        "SyncLoop (PLEG): pod does not exist, ignore irrelevant event",
    )
    def _pleg(self, entry: Entry) -> None:
        """A pod that the kubelet let go has no name; it is known only if it was here before."""
        uid, kind, data = pleg_event(entry.values.get("event"))
        ref = entry.pod
        if ref is not None:
            pod: Pod | None = self._pods.named(ref._replace(uid=ref.uid or uid), entry)
        else:
            pod = self._pods.with_uid(uid)
        if pod is not None:
            self._relisted(pod, kind, data, entry)

    def _relisted(self, pod: Pod, kind: str, container_id: str, entry: Entry) -> None:
        self._sync_loop.iterated()
        if kind not in ("ContainerStarted", "ContainerDied") or not container_id:
            return
        found = self._is_first_relist(entry.ts_ns)
        container = self._containers.make(container_id, pod)
        if kind == "ContainerDied" and container.died is not None:
            return  # a kubelet that starts reports again what has ended
        of_pod, instance = self._containers.of(pod), self.context.instances.get(container_id)
        # What was killed or listed has run before: the line about its start is missing. A hook
        # fails right after the start, which no relist need have seen.
        was_killed_later = container.kill is not None and container.killed_for != "post_start_hook"
        had_run = ran_by(instance, entry.ts_ns - _UNSEEN_NS) or was_killed_later
        is_new_to_log = container.seen_ts_ns is None
        is_new = is_new_to_log and not (kind == "ContainerDied" and had_run)
        # What comes and goes between two relists is reported by its end only, as an old sandbox is.
        follows = is_new and not found and (kind == _STARTED or self._names.has_sandbox(pod))
        self._names.find(container, entry.ts_ns, may_follow=follows)
        container.seen_ts_ns = container.seen_ts_ns or entry.ts_ns
        self._containers.any_seen = True
        started = of_pod.started.pop(container.name, None) if container.name and is_new else None
        found = found and started is None and not self._began_in_process(container_id)
        current = of_pod.current.get(container.name or "")
        previous = container.follows if current == container_id else current
        if current is None and follows:
            previous = self._names.predecessor(container, entry.ts_ns)
        evidence = (entry.evidence,) if started is None else (started, entry.evidence)
        if kind == _STARTED:
            container.died = None  # a sandbox is not ready before it is
            body = ContainerStarted(**container.names, sandbox=container.is_sandbox)
            self.queue.add(Fact(entry.ts_ns, body, evidence))
        else:
            self._died(container, entry)
        if container.name and kind == _STARTED:
            of_pod.backed_off.discard(container.name)
            of_pod.unstarted.discard(container.name)
        if container.name and (is_new_to_log or kind == _STARTED):
            later = is_later(instance, self.context.instances.get(previous or ""))
            if kind == _STARTED or not found or later:
                of_pod.current[container.name] = container_id
            ran_here = kind == _STARTED or previous is not None
            if is_new and not found and ran_here:
                self._restarted(container, previous, evidence, entry.ts_ns)

    def _is_first_relist(self, ts_ns: int) -> bool:
        """Whether the event is of the first relist of its kubelet process."""
        process = self._sync_loop.process
        if process == 0:
            return False
        if self._first_relist is None or self._first_relist[0] != process:
            self._first_relist = (process, ts_ns)
        return ts_ns - self._first_relist[1] < _FIRST_RELIST_NS

    def _began_in_process(self, container_id: str) -> bool:
        """Whether the status says that the present process started it (whole seconds)."""
        instance = self.context.instances.get(container_id)
        began_ns = None if instance is None else instance.started_ts_ns
        started_ns = self._sync_loop.started_ns
        return began_ns is not None and started_ns is not None and began_ns > started_ns

    def _died(self, container: Container, entry: Entry) -> None:
        exit_code = self._exit_codes.pop(container.container_id, None)
        instance = self.context.instances.get(container.container_id)
        if exit_code is None and instance is not None:
            exit_code = instance.exit_code
        body = ContainerDied(**container.names, sandbox=container.is_sandbox, exit_code=exit_code)
        container.died = fact = shown(entry, body)
        fact.cause = container.kill or self._oom.cause_of_death(fact, instance)
        self.queue.add(fact)

    def _restarted(
        self,
        container: Container,
        previous: str | None,
        evidence: tuple[Evidence, ...],
        ts_ns: int,
    ) -> None:
        instance = self.context.instances.get(container.container_id)
        count = None if instance is None else instance.restart_count
        if (previous is None and not count) or container.name is None:
            return
        before, reason = self._containers.get(previous), None
        cause = None if before is None else before.kill or before.died
        if before is not None and cause is not None:
            reason = "exited" if before.kill is None else before.killed_for
        body = ContainerRestarted(
            **container.names, previous_container_id=previous, reason=reason, restart_count=count
        )
        self.queue.add(Fact(ts_ns, body, evidence, cause=cause))

    # -- back-off -------------------------------------------------------------------------

    @reads("Back-off restarting failed container", "Error syncing pod, skipping")
    def _back_off(self, entry: Entry) -> None:
        text = entry.text("err")
        unstarted = {match[1] for match in _UNSTARTED.finditer(text)}
        ref = entry.pod or formatted_pod(entry.line.message)
        if ref is not None and unstarted:
            self._containers.of(self._pods.named(ref, entry)).unstarted |= unstarted
        for match in _BACK_OFF.finditer(text):
            backed_off = formatted_pod(match[3])
            if backed_off is not None:
                pod = self._pods.named(backed_off, entry)
                self._backed_off(entry, pod, match[2], parse_go_duration(match[1]) // NS_PER_S)

    def _backed_off(self, entry: Entry, pod: Pod, name: str, back_off_s: int) -> None:
        ended = self._names.backed_off(pod, name, entry.ts_ns)
        if ended is not None:
            # A container that waits has ended twice, so its last instance was a restart: the
            # first restart makes the entry, and waits for nothing (doBackOff).
            body = ContainerRestarted(
                **ended.names, previous_container_id=None, reason=None, restart_count=None
            )
            self.queue.add(Fact(ended.seen_ts_ns or entry.ts_ns, body, (entry.evidence,)))
        backed_off = RestartBackedOff(**pod.names, container=name, back_off_s=back_off_s)
        if self._is_repeated(pod, backed_off, entry):
            return
        last = self._containers.current(pod, name)
        cause = None if last is None else last.died or last.kill
        waiting = self.queue.hold(shown(entry, backed_off, cause=cause))
        self._back_offs[pod, name] = (waiting, _is_by_worker(entry))
        self._containers.of(pod).backed_off.add(name)

    def _is_repeated(self, pod: Pod, body: RestartBackedOff, entry: Entry) -> bool:
        """The pod worker repeats what the runtime manager decided, once for each decision."""
        waiting, logged_by_worker = self._back_offs.get((pod, body.container), (None, True))
        if waiting is None or logged_by_worker or not _is_by_worker(entry):
            return False
        if not waiting.is_open or waiting.body != body:
            return False  # it says something else, which must not be lost
        waiting.join(entry.evidence)
        self._back_offs[pod, body.container] = (waiting, True)
        return True


def _is_by_worker(entry: Entry) -> bool:
    """The pod worker's line, not the runtime manager's; old klog JSON names no file."""
    return entry.line.message.startswith("Error syncing pod")
