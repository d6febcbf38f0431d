"""Starts and restarts of containers, by all the lines that an instance has.

The PLEG compares two relists: what comes and goes between them it reports by its end only, or not
at all. So an instance is told by whatever shows it: the line about its making (1.35), which has
name and ID, the event of its start, the PLEG, the statuses in lists.

An ID seen for the first time is a restart when its name ran in the pod before: an earlier ID did,
or the status counts more restarts than starts are known to have failed. One whose own start failed
is none. What a kubelet process's first relist finds was not started by that process, unless an
event or a status says so.
"""

from __future__ import annotations

from kubeledger.ingest.correlate.container_names import ContainerNames
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.instances import Instance, is_later, is_next, ran_by
from kubeledger.ingest.correlate.registers import Container, Pod, Registers, Sighting
from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.bodies.lifecycle import ContainerRestarted, ContainerStarted
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

_UNSEEN_NS = 3 * NS_PER_S
"""What has run for longer was listed by a relist before, save that a busy PLEG took longer."""


class ContainerStarts:
    """Tells ``ContainerStarted`` and ``ContainerRestarted``."""

    def __init__(self, context: BundleContext, registers: Registers, names: ContainerNames) -> None:
        self._instances = context.instances
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
        self._names.find(container, seen.ts_ns, may_follow=follows)
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
        self,
        container: Container,
        previous: str | None,
        evidence: tuple[Evidence, ...],
        ts_ns: int,
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
