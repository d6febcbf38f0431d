"""Containers that start, die and start again, by the PLEG's events and all other lines."""

from __future__ import annotations

from kubeledger.ingest.correlate.assembler import PodAssembler, about_pod, reads, reads_events
from kubeledger.ingest.correlate.container_names import ContainerNames
from kubeledger.ingest.correlate.context import Instance, is_later, is_next, ran_by
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Waiting, shown
from kubeledger.ingest.correlate.oom import OomAssembler
from kubeledger.ingest.correlate.registers import Container, Pod, Registers, Sighting
from kubeledger.ingest.messages.containers import pleg_event
from kubeledger.ingest.messages.podref import FORMATTED_POD, formatted_pod
from kubeledger.ingest.sources.items import Fact
from kubeledger.ingest.sources.times import go_time
from kubeledger.kubelet.lifecycle.disputes import Dispute
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerRestarted,
    ContainerStarted,
    PodStarted,
    RestartBackedOff,
)
from kubeledger.model.patterns import regex
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S, parse_go_duration

# Starts and restarts of containers, by all the lines that an instance has.
#
# The PLEG compares two relists: what comes and goes between them it reports by its end only, or not
# at all. So an instance is told by whatever shows it: the line about its making (1.35), which has
# name and ID, the event of its start, the PLEG, the statuses in lists.
#
# An ID seen for the first time is a restart when its name ran in the pod before: an earlier ID did,
# or the status counts more restarts than starts are known to have failed. One whose own start
# failed
# is none. What a kubelet process's first relist finds was not started by that process, unless an
# event or a status says so.

_UNSEEN_NS = 3 * NS_PER_S
"""What has run for longer was listed by a relist before, save that a busy PLEG took longer."""


class ContainerStarts:
    """Tells ``ContainerStarted`` and ``ContainerRestarted``."""

    def __init__(self, registers: Registers, names: ContainerNames) -> None:
        self._instances = registers.context.instances
        self._names = names
        self._queue, self._containers = registers.queue, registers.containers
        self._sync_loop = registers.sync_loop

    # -- lines about one instance ---------------------------------------------------------

    def added(self, pod: Pod, name: str, container_id: str) -> None:
        """The kubelet made a container, which it starts next."""
        self._containers.make(container_id, pod).name = name
        self.tell_unseen(pod, name)
        self._containers.of(pod).added[name] = container_id

    def event(self, pod: Pod, name: str, seen: Sighting) -> None:
        """The event of a start: of what was made last, or of what the PLEG will name."""
        of_pod = self._containers.of(pod)
        added = self._containers.get(of_pod.added.pop(name, None))
        if added is None:
            of_pod.started[name] = seen
        elif added.seen_ts_ns is None:
            added.began = seen
            of_pod.unseen[name] = added

    def relisted(
        self, container: Container, seen: Sighting, *, is_start: bool, at_first: bool
    ) -> None:
        """The PLEG reports that it runs, or its end; ``at_first``: in a first relist."""
        is_new = container.seen_ts_ns is None and not container.ran
        had_run = not is_start and self._had_run(container, seen.ts_ns)
        follows = is_new and not had_run and not at_first
        follows = follows and (is_start or self._names.has_sandbox(container.pod))
        self._names.find(container, seen.ts_ns, may_follow=follows, at_first=at_first)
        container.seen_ts_ns = container.seen_ts_ns or seen.ts_ns
        event = self._event_of(container, had_run=had_run) if is_new else None
        in_vain = self._containers.of(container.pod).in_vain
        if is_new and container.name in in_vain:
            in_vain.discard(container.name)
            container.failed = not is_start and event is None
        evidence = (seen.evidence,) if event is None else (event.evidence, seen.evidence)
        previous = self._previous(container, seen.ts_ns, follows=follows)
        if is_start:
            self._started(container, seen.ts_ns, evidence)
        elif event is not None:
            self._started(container, event.ts_ns, (event.evidence,))
        if container.name is None or not (is_new or is_start):
            return
        found = at_first and event is None and not container.failed
        found = found and not self._began_in_process(container)
        begun_ns: int | None = seen.ts_ns
        if event is not None and not is_start:
            begun_ns = event.ts_ns
        elif found or had_run:
            begun_ns = self._listed_begin(container, previous)
        ran_here = is_start or event is not None or previous is not None
        if is_new and ran_here and begun_ns is not None:
            self._restarted(container, previous, evidence, begun_ns)
        self._follow(container, previous, may_be_old=found and not is_start, is_new=is_new)

    def tell_unseen(self, pod: Pod, name: str | None = None) -> None:
        """What started, and has gone without a relist that saw it."""
        unseen = self._containers.of(pod).unseen
        for each in [name] if name is not None else list(unseen):
            container = unseen.pop(each, None)
            if container is None or container.began is None:
                continue
            began, previous = container.began, self._previous(container, 0, follows=False)
            self._started(container, began.ts_ns, (began.evidence,))
            self._restarted(container, previous, (began.evidence,), began.ts_ns)
            self._follow(container, previous, may_be_old=False, is_new=True)

    # -- what they say --------------------------------------------------------------------

    def _instance(self, container_id: str | None) -> Instance | None:
        return self._instances.get(container_id or "")

    def _had_run(self, container: Container, ts_ns: int) -> bool:
        """What was killed or listed has run before: the line about its start is missing.

        A hook fails right after the start, which no relist need have seen.
        """
        was_killed = container.kill is not None and container.killed_for != "post_start_hook"
        return was_killed or ran_by(self._instance(container.container_id), ts_ns - _UNSEEN_NS)

    def _event_of(self, container: Container, *, had_run: bool) -> Sighting | None:
        """The event of its start, if the log has it."""
        of_pod, name = self._containers.of(container.pod), container.name or ""
        of_pod.unseen.pop(name, None)
        waits = of_pod.started.get(name)
        if container.began is not None or waits is None:
            return container.began
        if had_run and not ran_by(self._instance(container.container_id), waits.ts_ns):
            return None
        return of_pod.started.pop(name)

    def _began_in_process(self, container: Container) -> bool:
        """Whether the status says that the present process started it (whole seconds)."""
        instance, started_ns = self._instance(container.container_id), self._sync_loop.started_ns
        began_ns = None if instance is None else instance.ran_ts_ns
        return began_ns is not None and started_ns is not None and began_ns > started_ns

    def _listed_begin(self, container: Container, previous: str | None) -> int | None:
        """When it began by its status, if it followed another one that the log shows."""
        instance, before = self._instance(container.container_id), self._containers.get(previous)
        if instance is None or before is None or not is_later(instance, self._instance(previous)):
            return None
        began_ns, seen_ns = instance.ran_ts_ns, before.seen_ts_ns
        return began_ns if began_ns and seen_ns is not None and seen_ns < began_ns else None

    def _previous(self, container: Container, ts_ns: int, *, follows: bool) -> str | None:
        """The instance before it; None where nothing shows one."""
        current = self._containers.of(container.pod).current.get(container.name or "")
        if current is None:
            return self._names.predecessor(container, ts_ns) if follows else None
        if current == container.container_id:
            return container.follows
        own = self._instance(container.container_id)
        if not is_later(self._instance(current), own):
            return current
        # A late relist reports several ends, and the newest first.
        others = (each.container_id for each in self._containers.like(container))
        return next((other for other in others if is_next(self._instance(other), own)), None)

    def ran(self, container: Container | None) -> bool:
        """Of which only the end was seen did, unless a status shows that its start failed."""
        if container is None or container.ran:
            return container is not None
        instance = self._instance(container.container_id)
        return not container.failed and (instance is None or instance.ran_ts_ns is not None)

    # -- the facts ------------------------------------------------------------------------

    def _started(self, container: Container, ts_ns: int, evidence: tuple[Evidence, ...]) -> None:
        container.died = None  # a sandbox is not ready before it is
        container.ran = True
        body = ContainerStarted(**container.names, sandbox=container.is_sandbox)
        self._queue.add(Fact(ts_ns, body, evidence))

    def _follow(
        self, container: Container, previous: str | None, *, may_be_old: bool, is_new: bool
    ) -> None:
        """It is the last of its name now, unless it is known to have been before another."""
        of_pod, name = self._containers.of(container.pod), container.name or ""
        own, current = self._instance(container.container_id), of_pod.current.get(name)
        if may_be_old:
            follows = is_later(own, self._instance(previous))
        else:
            follows = not is_later(self._instance(current), own)
        if follows:
            of_pod.current[name] = container.container_id
        if self.ran(container):
            of_pod.ran.add(name)
        elif is_new:
            of_pod.failures[name] = of_pod.failures.get(name, 0) + 1

    def _restarted(
        self, container: Container, previous: str | None, evidence: tuple[Evidence, ...], ts_ns: int
    ) -> None:
        instance, before = self._instance(container.container_id), self._containers.get(previous)
        count = None if instance is None else instance.restart_count
        of_pod, name = self._containers.of(container.pod), container.name or ""
        ran_before = self.ran(before) or name in of_pod.ran
        ran_before = ran_before or (count or 0) > of_pod.failures.get(name, 0)
        if not ran_before or not self.ran(container):
            return
        reason, cause = None, None if before is None else before.kill or before.died
        if before is not None and cause is not None:
            reason = "exited" if before.kill is None else before.killed_for
        body = ContainerRestarted(
            **container.names, previous_container_id=previous, reason=reason, restart_count=count
        )
        self._queue.add(Fact(ts_ns, body, evidence, cause=cause))


# Containers that start, die and start again, from the PLEG's events.
#
# The PLEG shows an ID and no name (see ``container_names``), and starts only of what a relist found
# running: other lines show the rest (above).

_BACK_OFF = regex(rf"[Bb]ack-off (\S+) restarting failed container=(\S+) pod=({FORMATTED_POD})")
_UNSTARTED = regex(r'failed to \\*"StartContainer\\*" for \\*"([^"\\]+)\\*" with (\w+)')
_MADE_IN_VAIN = "RunContainerError"
_STARTED = "ContainerStarted"
_ZERO_DAY = "0001-01-01"
"""Begins Go's zero time."""
_FIRST_RELIST_NS = NS_PER_S * 9 // 10
"""The PLEG waits a second between relists, so what follows faster is of the first."""


class ContainerEventsAssembler(PodAssembler):
    """Container starts, deaths, restarts and back-offs."""

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._names = ContainerNames(registers)
        self._starts = ContainerStarts(registers, self._names)
        self._process: tuple[int, int | None] | None = None  # of which the last relist was
        self._relisted_ns = 0  # when it told its first; 0 where that is not in the log
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

    @about_pod("Observed pod startup duration")
    def _all_run(self, entry: Entry, pod: Pod) -> None:
        """The only sign of a start where the PLEG's events are not logged, or name nobody."""
        if not self._containers.of(pod).ran:
            self.queue.add(shown(entry, _started_as_measured(entry, pod)))

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
        at_first, is_start = self._is_first_relist(entry), kind == _STARTED
        container, of_pod = self._containers.make(container_id, pod), self._containers.of(pod)
        names = [f"pod {each.namespace}/{each.name}" for each in (pod, container.pod)]
        if pod.name and container.pod.name and names[0] != names[1]:
            why = f"container {container_id} is told as that of another pod"
            dispute = Dispute(f"pod/{pod.namespace}/{pod.name}", why, *names)
            self.queue.add(shown(entry, dispute.in_file(entry.evidence.file)))
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

    def _is_first_relist(self, entry: Entry) -> bool:
        """Whether the event is of the first relist of its kubelet process."""
        process = self._sync_loop.process, entry.line.pid
        if process != self._process:
            begins_here = self._process is not None or self._sync_loop.process > 0
            self._process, self._relisted_ns = process, entry.ts_ns if begins_here else 0
        return entry.ts_ns - self._relisted_ns < _FIRST_RELIST_NS

    def _died(self, container: Container, entry: Entry) -> None:
        exit_code = self._exit_codes.pop(container.container_id, None)
        instance = self.context.instances.get(container.container_id)
        if exit_code is None and instance is not None:
            exit_code = instance.exit_code
        body = ContainerDied(**container.names, sandbox=container.is_sandbox, exit_code=exit_code)
        container.died = fact = shown(entry, body)
        oom = self.registers.assembler(OomAssembler)
        fact.cause = container.kill or oom.cause_of_death(fact, instance)
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


def _started_as_measured(entry: Entry, pod: Pod) -> PodStarted:
    """What the kubelet measured of a pod's start.

    Source: v1.26.15 and v1.36.2 pkg/kubelet/util/pod_startup_latency_tracker.go
    """

    def at(*keys: str) -> int | None:
        text = entry.text(*keys)
        return None if text.startswith(_ZERO_DAY) or not text else go_time(text)

    begun_ns, ended_ns = at("firstStartedPulling"), at("lastFinishedPulling")
    pulling_ns = 0 if begun_ns is None or ended_ns is None else ended_ns - begun_ns
    if (pulling := entry.get("totalImagesPullingTime")) is not None:
        pulling_ns = parse_go_duration(pulling)
    own_s = entry.get("podStartSLOduration")
    return PodStarted(
        **pod.names,
        created_ts_ns=at("podCreationTimestamp", "pod.CreationTimestamp"),
        running_ts_ns=at("observedRunningTime"),
        pull_started_ts_ns=begun_ns,
        pull_ended_ts_ns=ended_ns,
        pulling_ns=max(pulling_ns, 0),
        own_ns=None if own_s is None else round(float(own_s) * NS_PER_S),
    )


def _is_by_worker(entry: Entry) -> bool:
    """The pod worker's line, not the runtime manager's; old klog JSON names no file."""
    return entry.line.message.startswith("Error syncing pod")
