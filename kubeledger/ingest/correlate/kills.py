"""Kills of containers: one fact a kill, from up to four lines about it.

``Container "c" (...) of pod p: message`` says why, ``Killing container ... with a grace
period`` that it happens and how much time it gets, the event repeats the message. A pod
that is stopped as a whole has the last two only; then the reason follows from what became
of the pod: preempted, evicted or deleted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kubeledger.ingest.correlate.assembler import PodAssembler, reads, reads_events
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import WAIT_NS, Waiting, shown
from kubeledger.ingest.correlate.registers import Container, Pod, Registers
from kubeledger.ingest.messages.podref import bare_container_id
from kubeledger.ingest.sources.items import Fact
from kubeledger.kubelet.lifecycle.disputes import Dispute
from kubeledger.kubelet.lifecycle.termination import MINIMUM_GRACE_S
from kubeledger.model.bodies.lifecycle import ContainerKilled, PodTerminating
from kubeledger.model.bodies.prober import ProbeTransitioned
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S, whole_number

_PRE_STOP_WAIT_NS = 60 * NS_PER_S


_PHRASES = (
    ("failed liveness probe", "liveness_probe"),
    ("failed startup probe", "startup_probe"),
    ("definition changed", "spec_changed"),
    ("resize requires restart", "resized"),
    ("FailedPostStartHook", "post_start_hook"),
)
_OF_ENDING: Mapping[str, str] = {
    "deleted": "pod_deleted",
    "removed": "pod_deleted",
    "orphaned": "orphaned",
    "ended": "pod_ended",
    "shutdown": "node_shutdown",
}


class _Kill(Waiting[ContainerKilled]):
    """A kill whose lines are being gathered.

    Attributes:
        eviction: the one known when the kill began; a later one cannot be its cause.
        override: the line that gave the grace period, and the period.
        timed: a line shows the grace period; ``reported`` an event shows the kill.
    """

    def __init__(self, fact: Fact, container: Container, eviction: Fact | None) -> None:
        super().__init__(fact)
        self.container = container
        self.eviction = eviction
        self.override: tuple[Entry, int] | None = None
        self.timed = self.reported = False
        self.last_ts_ns = 0

    def is_over(self, ts_ns: int) -> bool:
        """Its lines are all reported: another one is of a kill that the kubelet tries again."""
        return self.timed and ts_ns > max(self.last_ts_ns + WAIT_NS, self.due_ns)


class KillsAssembler(PodAssembler):
    """Killed containers."""

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._kills: dict[str, _Kill] = {}
        # 1.21 writes the line about any period in the words of the one about an override.
        version = self.context.kubelet_version or ""
        self._overrides_only = re.match(r"v?1\.21\b", version) is not None

    # -- lines ----------------------------------------------------------------------------

    @reads(
        "Message for Container of pod",
        "Killing unwanted container for pod",
        "Killing container with a grace period",
    )
    def _killing(self, entry: Entry) -> None:
        """A line that says why, or how much time the container gets."""
        container = self._container_of(entry)
        if container is not None:
            message, grace = entry.get("containerMessage"), entry.text("gracePeriod")
            message = None if message is None else message.rstrip("\n")
            self._record(container, entry, message=message, grace_s=whole_number(grace))

    @reads("Killing container with a grace period override")
    def _overridden(self, entry: Entry) -> None:
        if self._overrides_only:
            self._killing(entry)
            return
        container, grace_s = self._container_of(entry), whole_number(entry.text("gracePeriod"))
        if container is not None:
            self._record(container, entry)
            kill = self._kills[container.container_id]
            # Where the other line came first, as of old, both may differ.
            if not kill.timed and grace_s is not None:
                kill.override = entry, grace_s

    @reads("Running preStop hook")
    def _hooked(self, entry: Entry) -> None:
        """A preStop hook runs first; the grace period follows when it is done."""
        kill = self._kills.get(entry.container_id or "")
        if kill is not None and kill.is_open:
            kill.due_ns = entry.ts_ns + _PRE_STOP_WAIT_NS

    @reads("Container termination failed with gracePeriod")
    def _failed(self, entry: Entry) -> None:
        """The kill failed: the kubelet will decide again."""
        kill = self._kills.pop(entry.container_id or "", None)
        if kill is not None:
            kill.settle()

    @reads_events("Killing")
    def _event(self, entry: Entry) -> None:
        event = entry.event()
        if event is None:
            return
        pod = self._pods.named(event.pod, entry)
        kill = self._kill_of(pod, event.container)
        current = self._containers.current(pod, event.container)
        if kill is not None:
            kill.container.name = event.container or kill.container.name
            self._record(kill.container, entry, message=event.message, reported=True)
        elif current is not None and current.kill is None:
            if current.died is not None and entry.ts_ns - current.ended_ns > WAIT_NS:
                self._record_unseen(current, entry, event.message)
            else:
                self._record(current, entry, message=event.message, reported=True)

    def _kill_of(self, pod: Pod, name: str | None) -> _Kill | None:
        """The open kill in the pod that an event about a container of that name means."""
        open_kills = [
            kill
            for kill in self._kills.values()
            if kill.container.pod is pod and kill.is_open and not kill.reported
        ]
        for kill in open_kills:
            if kill.container.name == name:
                return kill
        nameless = [kill for kill in open_kills if kill.container.name is None or name is None]
        return nameless[0] if len(nameless) == 1 else None

    # -- whose ----------------------------------------------------------------------------

    def _container_of(self, entry: Entry) -> Container | None:
        """The container of a line; old lines about the grace period hold the ID only."""
        values = entry.values
        container_id = bare_container_id(values.get("containerStatusID")) or entry.container_id
        pod = self._pods.of(entry) if container_id is not None else None
        if container_id is None:
            return None
        if pod is None:
            return self._known(container_id)
        container = self._container(pod, container_id, entry.get("containerName") or None)
        named, of = (f"{each.namespace}/{each.name}" for each in (pod, container.pod))
        if named != of:
            short = container_id[:12]
            self._dispute(pod, f"container {short} is killed as another pod's", named, of, entry)
        return container

    def _known(self, container_id: str) -> Container | None:
        container = self._containers.get(container_id)
        instance = self.context.instances.get(container_id)
        if container is not None or instance is None:
            return container
        pod = self._pods.with_uid(instance.pod_uid)
        return None if pod is None else self._container(pod, container_id, instance.container)

    def _container(self, pod: Pod, container_id: str, name: str | None) -> Container:
        container = self._containers.make(container_id, pod)
        container.name = name or container.name
        if container.name is not None:
            current = self._containers.of(pod).current
            current.setdefault(container.name, container_id)
            if self._has_followed(container, current[container.name]):
                container.follows = current[container.name]
                current[container.name] = container_id
        return container

    def _has_followed(self, container: Container, current: str) -> bool:
        """Whether what is killed came after what was seen last: the line of its start is lost.

        An ID that no list knows, while another one runs, may as well be wrong.
        """
        if current == container.container_id:
            return False
        before = self._containers[current]
        ended = before.died is not None or before.kill is not None
        is_new_to_log = container.seen_ts_ns is None and container.died is None
        return is_new_to_log and (ended or container.container_id in self.context.instances)

    # -- the fact -------------------------------------------------------------------------

    def _record(
        self,
        container: Container,
        entry: Entry,
        *,
        message: str | None = None,
        grace_s: int | None = None,
        reported: bool = False,
    ) -> None:
        """Note what a line shows of a kill; its first line opens the fact."""
        kill = self._kills.get(container.container_id)
        if kill is None or (kill.is_over(entry.ts_ns) and not reported and message is None):
            kill = self._open(container, entry)
        if not kill.is_open:
            return
        kill.join(entry.evidence)
        kill.due_ns = max(kill.due_ns, entry.ts_ns + WAIT_NS)
        kill.last_ts_ns = entry.ts_ns
        kill.timed = kill.timed or grace_s is not None
        if grace_s is not None:
            self._compare(kill, entry, grace_s)
        kill.reported = kill.reported or reported
        # The line says why; the event of a pod that is stopped as a whole does not.
        known = kill.body.message
        text = known if reported and known is not None else message or known
        reason, kill.fact.cause = self._reason_of(container, text, kill.eviction)
        if reason is not None and reason.endswith("_probe") and container.name is not None:
            killed = self._containers.of(container.pod).probe_kills
            killed[container.name, reason.removesuffix("_probe")] = container.container_id
        kill.learn(
            container=container.name,
            message=text,
            grace_period_s=kill.body.grace_period_s if grace_s is None else grace_s,
            reason=reason,
        )
        if kill.timed and kill.reported:
            kill.settle()

    def _open(self, container: Container, entry: Entry) -> _Kill:
        body = ContainerKilled(**container.names, reason=None, message=None, grace_period_s=None)
        container.kill = fact = shown(entry, body)
        kill = self.queue.put(_Kill(fact, container, container.pod.evicted))
        self._kills[container.container_id] = kill
        return kill

    def _record_unseen(self, before: Container, entry: Entry, message: str) -> None:
        """The instance before had ended: no line tells the ID of the one that is killed."""
        unseen = Container("", before.pod, before.name)
        reason, cause = self._reason_of(unseen, message, before.pod.evicted)
        names = unseen.names | {"container_id": None}
        body = ContainerKilled(**names, reason=reason, message=message, grace_period_s=None)
        self.queue.add(shown(entry, body, cause=cause))

    def _compare(self, kill: _Kill, entry: Entry, grace_s: int) -> None:
        """A kill uses the grace period it was given, less what its hook took meanwhile."""
        given, given_s = kill.override or (entry, grace_s)
        kill.override = None
        # The minimum holds for a period that was given only since 1.28, and the version may
        # be unknown: this asks whether the two lines fit together in any version.
        least_s, most_s = given_s - 1, max(given_s, MINIMUM_GRACE_S)
        at_once = 0 <= entry.ts_ns - given.ts_ns < NS_PER_S
        if given is entry or not at_once or least_s <= grace_s <= most_s:
            return
        why = f"container {kill.container.name} is killed with another grace period than was given"
        said = f"{grace_s} s", f"{given_s} s"
        self._dispute(kill.container.pod, why, *said, entry, given.evidence)

    def _dispute(
        self, pod: Pod, why: str, here: str, elsewhere: str, entry: Entry, *more: Evidence
    ) -> None:
        dispute = Dispute(f"pod/{pod.namespace}/{pod.name}", why, here, elsewhere)
        self.queue.add(shown(entry, dispute.in_file(entry.evidence.file), *more))

    # -- why ------------------------------------------------------------------------------

    def _reason_of(
        self, container: Container, message: str | None, eviction: Fact | None
    ) -> tuple[str | None, Fact | None]:
        """Reason of a kill and the fact that led to it, as far as either is known.

        What concerns a container alone is in the message. Of a pod that is stopped as a whole the
        message says nothing: then what became of the pod shows.
        """
        pod = container.pod
        for phrase, reason in _PHRASES:
            if message is not None and phrase in message:
                probe_type = reason.partition("_")[0]
                failures = self._containers.of(pod).unhealthy
                failure = failures.get((container.name or "", probe_type))
                return reason, failure if _is_of(failure, container) else None
        ending = _ending(pod)
        if ending == "node_shutdown":
            return ending, pod.ending
        if pod.preempted is not None or pod.is_told_victim:
            return "preempted", pod.preempted
        if pod.evicted is not None:
            return "evicted", eviction
        if ending is not None:
            return ending, (ending == "pod_deleted" and pod.deleted) or pod.ending
        if pod.deleted is not None:
            return "pod_deleted", pod.deleted
        return ("sandbox_changed" if pod.lacks_sandbox else None), None


def _ending(pod: Pod) -> str | None:
    """Why its worker stops the pod; None where that is not known."""
    body = None if pod.ending is None else pod.ending.body
    if not isinstance(body, PodTerminating):
        return None
    if body.reason == "ended" and pod.past_deadline:
        return "deadline_exceeded"
    return _OF_ENDING.get(body.reason)


def _is_of(failure: Fact | None, container: Container) -> bool:
    """A failure of an earlier instance does not kill the present one."""
    if failure is None or not isinstance(failure.body, ProbeTransitioned):
        return False
    return failure.body.container_id in (None, container.container_id)
