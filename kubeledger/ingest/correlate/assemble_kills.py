"""Kills of containers: one fact a kill, from up to four lines about it.

``Container "c" (...) of pod p: message`` says why, ``Killing container ... with a grace
period`` that it happens and how much time it gets, the event repeats the message. A pod
that is stopped as a whole has the last two only; then the reason follows from what became
of the pod: preempted, evicted or deleted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from kubeledger.ingest.correlate.assembler import Assembler, StructuredHandler
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import Waiting
from kubeledger.ingest.correlate.kill_reasons import reason_of_kill
from kubeledger.ingest.correlate.links import ContainerLink, PodLink
from kubeledger.ingest.messages.podref import (
    bare_container_id,
    event_line,
    structured_pod,
    text_value,
)
from kubeledger.ingest.sources.facts import Fact, Facts
from kubeledger.ingest.sources.items import LogLine
from kubeledger.model.bodies.lifecycle import ContainerKilled
from kubeledger.model.units import NS_PER_S, whole_number

__all__ = ["KillsAssembler"]

_LEAST_S = 2
"""The kubelet's minimumGracePeriodInSeconds; up to 1.27 a period that was given may be less."""
_WAIT_NS = NS_PER_S
_PRE_STOP_WAIT_NS = 60 * NS_PER_S


class _Kill:
    """A kill whose lines are being gathered."""

    __slots__ = ("container", "eviction", "last_ts_ns", "override", "reported", "timed", "waiting")

    def __init__(self, container: ContainerLink, waiting: Waiting) -> None:
        self.container = container
        self.waiting = waiting
        self.eviction = container.pod.eviction
        self.override: tuple[LogLine, int] | None = None
        self.timed = False
        self.reported = False
        self.last_ts_ns = 0

    def is_over(self, ts_ns: int) -> bool:
        """Its lines are all told: another one is of a kill that the kubelet tries again."""
        return self.timed and ts_ns > max(self.last_ts_ns + _WAIT_NS, self.waiting.due_ns)


class KillsAssembler(Assembler):
    """Killed containers."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._links = context.links
        self._kills: dict[str, _Kill] = {}
        # 1.21 writes the line about any period in the words of the one about an override.
        self._overrides_only = re.match(r"v?1\.21\b", context.kubelet_version or "") is not None

    def structured(self) -> Mapping[str, StructuredHandler]:
        """Messages since 1.21, and the event of 1.20."""
        handlers: dict[str, StructuredHandler] = {}
        handlers["Message for Container of pod"] = self._message
        handlers["Killing unwanted container for pod"] = self._unwanted
        handlers["Killing container with a grace period"] = self._grace
        handlers["Killing container with a grace period override"] = self._override
        handlers["Running preStop hook"] = self._pre_stop
        handlers["Container termination failed with gracePeriod"] = self._failed
        handlers["Event occurred"] = self._event
        return handlers

    def finish(self, ts_ns: int) -> Facts:
        """What still waited."""
        return self._links.queue.drain()

    def _release(self, line: LogLine) -> list[Fact]:
        return self._links.queue.release(line.ts_ns)

    def _message(self, line: LogLine) -> Facts:
        container = self._of_line(line, "containerStatusID")
        if container is not None:
            self._tell(container, line, message=text_value(line, "containerMessage"))
        return self._release(line)

    def _unwanted(self, line: LogLine) -> Facts:
        container = self._of_line(line, "containerID")
        if container is not None:
            self._tell(container, line)
        return self._release(line)

    def _grace(self, line: LogLine) -> Facts:
        container = self._of_line(line, "containerID")
        grace = text_value(line, "gracePeriod")
        if container is not None:
            self._tell(container, line, grace_s=whole_number(grace))
        return self._release(line)

    def _override(self, line: LogLine) -> Facts:
        if self._overrides_only:
            return self._grace(line)
        container = self._of_line(line, "containerID")
        grace = text_value(line, "gracePeriod")
        if container is not None:
            self._tell(container, line)
            kill = self._kills[container.container_id]
            # Where the other line came first, as of old, both may differ.
            grace_s = whole_number(grace)
            if not kill.timed and grace_s is not None:
                kill.override = line, grace_s
        return self._release(line)

    def _pre_stop(self, line: LogLine) -> Facts:
        return self._hooked(line, bare_container_id((line.values or {}).get("containerID")))

    def _failed(self, line: LogLine) -> Facts:
        return self._forgotten(line, bare_container_id((line.values or {}).get("containerID")))

    def _of_line(self, line: LogLine, key: str) -> ContainerLink | None:
        values = line.values or {}
        container_id = bare_container_id(values.get(key))
        ref = structured_pod(values.get("pod"), values.get("podUID"))
        if container_id is None:
            return None
        if ref is None:  # as in the lines of 1.20 about the period
            return self._known(container_id)
        pod = self._links.pod(self.context, ref, line)
        return self._container(pod, container_id, text_value(line, "containerName") or None)

    # -- the event ------------------------------------------------------------------------

    def _event(self, line: LogLine) -> Facts:
        event = event_line(line, ("Killing",))
        if event is None:
            return self._release(line)
        pod = self._links.pod(self.context, event.pod, line)
        kill = self._kill_of(pod, event.container)
        if kill is not None:
            if event.container is not None:
                kill.container.name = event.container
            self._tell(kill.container, line, message=event.message, reported=True)
        elif event.container in pod.current:
            container = self._links.containers[pod.current[event.container or ""]]
            if container.kill is None:
                self._tell(container, line, message=event.message, reported=True)
        return self._release(line)

    def _kill_of(self, pod: PodLink, name: str | None) -> _Kill | None:
        """The open kill in the pod that an event about a container of that name means."""
        open_kills = [
            kill
            for kill in self._kills.values()
            if kill.container.pod is pod and kill.waiting.fact is not None and not kill.reported
        ]
        for kill in open_kills:
            if kill.container.name == name:
                return kill
        nameless = [kill for kill in open_kills if kill.container.name is None or name is None]
        return nameless[0] if len(nameless) == 1 else None

    # -- the fact -------------------------------------------------------------------------

    def _container(self, pod: PodLink, container_id: str, name: str | None) -> ContainerLink:
        container = self._links.container(container_id, pod)
        container.name = name or container.name
        if container.name is not None:
            pod.current.setdefault(container.name, container_id)
            if self._has_followed(container, pod.current[container.name]):
                container.follows = pod.current[container.name]
                pod.current[container.name] = container_id
        return container

    def _known(self, container_id: str) -> ContainerLink | None:
        return self._links.containers.get(container_id) or self._from_status(container_id)

    def _has_followed(self, container: ContainerLink, current: str) -> bool:
        """Whether what is killed came behind what was seen last: the line of its start is lost.

        An ID that no list knows, while another one runs, may as well be wrong.
        """
        before = self._links.containers[current]
        ended = before.died is not None or before.kill is not None
        is_unseen = container.seen_ts_ns is None and container.died is None
        listed = self._links.instance(self.context, container.container_id) is not None
        return is_unseen and (ended or listed)

    def _from_status(self, container_id: str) -> ContainerLink | None:
        instance = self._links.instance(self.context, container_id)
        known = None if instance is None else instance.pod_uid
        pod = None if known is None else self._links.pod_by_uid(self.context, known)
        if instance is None or pod is None:
            return None
        return self._container(pod, container_id, instance.container)

    def _tell(
        self,
        container: ContainerLink,
        line: LogLine,
        *,
        message: str | None = None,
        grace_s: int | None = None,
        reported: bool = False,
    ) -> None:
        """Take down what a line tells of a kill; its first line opens the fact."""
        kill = self._kills.get(container.container_id)
        if kill is None or (kill.is_over(line.ts_ns) and not reported and message is None):
            fact = Fact(line.ts_ns, _body(container), ())
            kill = _Kill(container, self._links.queue.hold(fact, _WAIT_NS))
            self._kills[container.container_id] = kill
            container.kill = fact
        fact_now = kill.waiting.fact
        if fact_now is None:
            return
        assert isinstance(fact_now.body, ContainerKilled)
        kill.waiting.join(line.evidence)
        kill.waiting.due_ns = max(kill.waiting.due_ns, line.ts_ns + _WAIT_NS)
        kill.last_ts_ns = line.ts_ns
        kill.timed = kill.timed or grace_s is not None
        if grace_s is not None:
            self._compare(kill, line, grace_s)
        kill.reported = kill.reported or reported
        # The line says why; the event of a pod that is stopped as a whole does not.
        known = fact_now.body.message
        text = known if reported and known is not None else message or known
        reason, cause = reason_of_kill(container, text, kill.eviction)
        fact_now.cause = cause
        if reason is not None and reason.endswith("_probe") and container.name is not None:
            probe_type = reason.removesuffix("_probe")
            container.pod.probe_kills[container.name, probe_type] = container.container_id
        fact_now.body = msgspec.structs.replace(
            fact_now.body,
            container=container.name,
            message=text,
            grace_period_s=fact_now.body.grace_period_s if grace_s is None else grace_s,
            reason=reason,
        )
        if kill.timed and kill.reported:
            kill.waiting.settle()

    def _compare(self, kill: _Kill, line: LogLine, grace_s: int) -> None:
        """A kill uses the grace period it was given, less what its hook took meanwhile."""
        given, given_s = kill.override or (line, grace_s)
        kill.override = None
        # The minimum holds for a period that was given only since 1.28, and the version may
        # be unknown: this asks whether the two lines fit together in any version.
        least_s, most_s = given_s - 1, max(given_s, _LEAST_S)
        at_once = 0 <= line.ts_ns - given.ts_ns < NS_PER_S
        if given is line or not at_once or least_s <= grace_s <= most_s:
            return
        container = kill.container
        why = f"container {container.name} is killed with another grace period than was given"
        sides = f"{grace_s} s", f"{given_s} s"
        self._links.dispute(container.pod, line.ts_ns, why, *sides, line.evidence, given.evidence)

    def _hooked(self, line: LogLine, container_id: str | None) -> Facts:
        """A preStop hook runs first; the grace period follows when it is done."""
        kill = self._kills.get(container_id or "")
        if kill is not None and kill.waiting.fact is not None:
            kill.waiting.due_ns = line.ts_ns + _PRE_STOP_WAIT_NS
        return self._release(line)

    def _forgotten(self, line: LogLine, container_id: str | None) -> Facts:
        """The kill failed: the kubelet will decide again."""
        kill = self._kills.pop(container_id or "", None)
        if kill is not None:
            kill.waiting.settle()
        return self._release(line)


def _body(container: ContainerLink) -> ContainerKilled:
    return ContainerKilled(
        namespace=container.pod.namespace,
        pod=container.pod.name,
        pod_uid=container.pod.uid,
        container=container.name,
        container_id=container.container_id,
        reason=None,
        message=None,
        grace_period_s=None,
    )
