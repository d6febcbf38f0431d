"""Containers that start, die and start again, from the PLEG's events.

The PLEG shows an ID and no name (see ``container_names``), and starts only of what a relist found
running (see ``container_starts``).
"""

from __future__ import annotations

import re

from kubeledger.ingest.correlate.assembler import Entry, reads, reads_events
from kubeledger.ingest.correlate.container_names import ContainerNames
from kubeledger.ingest.correlate.container_starts import ContainerStarts
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import Waiting, shown
from kubeledger.ingest.correlate.oom import OomAssembler
from kubeledger.ingest.correlate.registers import (
    Container,
    Pod,
    PodAssembler,
    Registers,
    Sighting,
    about_pod,
)
from kubeledger.ingest.messages.pleg_lines import pleg_event
from kubeledger.ingest.messages.podref import FORMATTED_POD, formatted_pod
from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerRestarted,
    RestartBackedOff,
)
from kubeledger.model.units import NS_PER_S, parse_go_duration

_BACK_OFF = re.compile(
    rf"[Bb]ack-off (\S+) restarting failed container=(\S+) pod=({FORMATTED_POD})"
)
_UNSTARTED = re.compile(r'failed to \\*"StartContainer\\*" for \\*"([^"\\]+)\\*" with (\w+)')
_MADE_IN_VAIN = "RunContainerError"
_STARTED = "ContainerStarted"
_FIRST_RELIST_NS = NS_PER_S * 9 // 10
"""The PLEG waits a second between relists, so what follows faster is of the first."""


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
        self._starts = ContainerStarts(context, registers, names)
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

    @about_pod("Added Container")
    def _added(self, entry: Entry, pod: Pod) -> None:
        name, container_id = entry.get("containerName"), entry.container_id
        if name and container_id:
            self._starts.added(pod, name, container_id)

    @reads("Generic (PLEG): container finished")
    def _finished(self, entry: Entry) -> None:
        container_id, exit_code = entry.container_id, entry.number("exitCode")
        if container_id is not None and exit_code is not None:
            self._exit_codes[container_id] = exit_code

    @reads_events("Started", "BackOff")
    def _event(self, entry: Entry) -> None:
        event = entry.event()
        if event is None:
            return
        pod = self._pods.named(event.pod, entry)
        if event.reason == "Started" and event.container is not None:
            self._starts.event(pod, event.container, Sighting(entry.ts_ns, entry.evidence))
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
        if kind not in (_STARTED, "ContainerDied") or not container_id:
            return
        at_first, is_start = self._is_first_relist(entry.ts_ns), kind == _STARTED
        container, of_pod = self._containers.make(container_id, pod), self._containers.of(pod)
        if not is_start and container.died is not None:
            return  # a kubelet that starts reports again what has ended
        self._containers.any_seen = True
        seen = Sighting(entry.ts_ns, entry.evidence)
        self._starts.relisted(container, seen, is_start=is_start, at_first=at_first)
        if not is_start:
            self._died(container, entry)
            if container.sandbox:
                self._starts.tell_unseen(pod)
        elif container.name is not None:
            of_pod.backed_off.discard(container.name)
            of_pod.unstarted.discard(container.name)

    def end(self, ts_ns: int) -> None:
        """What started last need not be seen by any relist of the log."""
        for pod in self._containers.pods():
            self._starts.tell_unseen(pod)

    def _is_first_relist(self, ts_ns: int) -> bool:
        """Whether the event is of the first relist of its kubelet process."""
        process = self._sync_loop.process
        if process == 0:
            return False
        if self._first_relist is None or self._first_relist[0] != process:
            self._first_relist = (process, ts_ns)
        return ts_ns - self._first_relist[1] < _FIRST_RELIST_NS

    def _died(self, container: Container, entry: Entry) -> None:
        exit_code = self._exit_codes.pop(container.container_id, None)
        instance = self.context.instances.get(container.container_id)
        if exit_code is None and instance is not None:
            exit_code = instance.exit_code
        body = ContainerDied(**container.names, sandbox=container.is_sandbox, exit_code=exit_code)
        container.died = fact = shown(entry, body)
        fact.cause = container.kill or self._oom.cause_of_death(fact, instance)
        self.queue.add(fact)

    # -- back-off -------------------------------------------------------------------------

    @reads("Back-off restarting failed container", "Error syncing pod, skipping")
    def _back_off(self, entry: Entry) -> None:
        text = entry.text("err")
        unstarted = dict(_UNSTARTED.findall(text))
        ref = entry.pod or formatted_pod(entry.line.message)
        if ref is not None and unstarted:
            of_pod = self._containers.of(self._pods.named(ref, entry))
            of_pod.unstarted.update(unstarted)
            of_pod.in_vain |= {name for name, why in unstarted.items() if why == _MADE_IN_VAIN}
        for match in _BACK_OFF.finditer(text):
            backed_off = formatted_pod(match[3])
            if backed_off is not None:
                pod = self._pods.named(backed_off, entry)
                self._backed_off(entry, pod, match[2], parse_go_duration(match[1]) // NS_PER_S)

    def _backed_off(self, entry: Entry, pod: Pod, name: str, back_off_s: int) -> None:
        ended = self._names.backed_off(pod, name, entry.ts_ns)
        if ended is not None and self._starts.ran(ended):
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
