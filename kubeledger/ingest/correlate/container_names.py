"""Whose container an ID is: the PLEG shows IDs only."""

from __future__ import annotations

from collections.abc import Iterable

from kubeledger.ingest.correlate.registers import Container, Pod, Registers
from kubeledger.model.units import NS_PER_S

_RESTARTING = ("liveness_probe", "startup_probe", "spec_changed", "resized")
"""Reasons of kills that a restart follows."""
_SOON_NS = 5 * NS_PER_S
"""A first restart waits for nothing; its back-off is reported as soon as the next end is."""
_RELIST_NS = NS_PER_S // 2
"""Events this far apart are of two relists: the PLEG waits a second between them."""


class ContainerNames:
    """Names IDs from pod lists, start events, and what is left in a pod."""

    def __init__(self, registers: Registers) -> None:
        self._context = registers.context
        self._containers = registers.containers

    def note_sandbox(self, pod: Pod, container_id: str) -> None:
        self._containers.of(pod).sandboxes.add(container_id)
        self._containers.make(container_id, pod).sandbox = True

    def find(self, container: Container, ts_ns: int, *, may_follow: bool, at_first: bool) -> None:
        """Find out whose container it is, if that is not known.

        Args:
            container: what a relist shows.
            ts_ns: when.
            may_follow: it has just started, so it may be what a container of the pod that ended
                became.
            at_first: a process shows all that runs; what was there before may be gone by then.
        """
        self._settle_lone(container, ts_ns)
        if container.name is not None or container.sandbox:
            return
        container_id, pod = container.container_id, container.pod
        known = self._context.container(container_id)
        instance = self._context.instances.get(container_id)
        if known is not None and known.sandbox:
            self.note_sandbox(pod, container_id)
        elif known is not None and known.container is not None:
            container.name = known.container
        elif instance is not None:
            container.name = instance.container
        else:
            if self.has_sandbox(pod) or (not at_first and self._left_over(container, ts_ns)):
                # A pod has one sandbox at a time, so the ID is a container.
                container.name = self._only_candidate(pod)
            if container.name is None and may_follow:
                container.name = self._awaited(pod, ts_ns)
            if container.name is None:
                self._containers.of(pod).unnamed.add(container_id)

    def _settle_lone(self, container: Container, ts_ns: int) -> None:
        """The first ID after a new sandbox was called for is that, if it came in a relist alone.

        A container that is in the same relist is reported before the sandbox.
        """
        of_pod = self._containers.of(container.pod)
        if of_pod.lone is not None:
            lone_id, since_ns = of_pod.lone
            of_pod.lone = None
            if ts_ns - since_ns >= _RELIST_NS and lone_id in of_pod.unnamed:
                self._is_sandbox(container.pod, [lone_id])
        elif of_pod.needs_sandbox:
            of_pod.lone = container.container_id, ts_ns
        of_pod.needs_sandbox = False

    def _is_sandbox(self, pod: Pod, nameless: Iterable[str]) -> None:
        """IDs that had no name are sandboxes of the pod."""
        for container_id in nameless:
            self.note_sandbox(pod, container_id)
            self._containers.of(pod).unnamed.discard(container_id)

    def _name(self, container: Container, name: str) -> None:
        """An ID that had no name has one."""
        container.name = name
        self._containers.of(container.pod).unnamed.discard(container.container_id)

    def backed_off(self, pod: Pod, name: str, ts_ns: int) -> Container | None:
        """A back-off names the container of a pod in which there is but one.

        Returns:
            The instance that ended last, where nothing had named it.
        """
        nameless, current = self._nameless(pod), self._containers.of(pod).current
        running = [each for each in nameless if each.died is None]
        ended = [each for each in nameless if each.died is not None]
        # The sandbox was seen, and nothing else runs: all of the pod is in the log.
        if current or not ended or len(running) != (not self.has_sandbox(pod)):
            return None
        last = max(ended, key=lambda each: each.ended_ns)
        since_ns = last.seen_ts_ns
        if since_ns is None or not 0 <= ts_ns - last.ended_ns <= _SOON_NS:
            return None
        others = (*ended, *self._containers.named(pod, name))
        if any(each.ended_ns >= since_ns for each in others if each is not last):
            return None
        # Beside the only container only its sandbox has an ID.
        self._is_sandbox(pod, [each.container_id for each in running])
        self._name(last, name)
        current[name] = last.container_id
        return last

    def predecessor(self, container: Container, ts_ns: int) -> str | None:
        """The nameless instance that a container with a name follows; None if it may be another.

        The log names the containers of a pod late, as it kills them. When all of these but one
        run, and that one starts right after something beside them ended, then that was it: an
        init container ends before they start.
        """
        pod, name = container.pod, container.name
        others = self._names_of(pod) - {name}
        found = [self._containers.current(pod, other) for other in others]
        if name is None or not others or None in found:
            return None
        ended = [
            each
            for each in self._nameless(pod)
            if each.died is not None and 0 <= ts_ns - each.ended_ns <= _SOON_NS
        ]
        if len(ended) != 1 or any(
            each is not None
            and (each.died is not None or (each.seen_ts_ns or ts_ns) >= ended[0].ended_ns)
            for each in found
        ):
            return None
        self._name(ended[0], name)
        return ended[0].container_id

    def _names_of(self, pod: Pod) -> set[str]:
        """Containers of a pod that lists or kills name."""
        return self._context.container_names(pod.uid or "")

    def _awaited(self, pod: Pod, ts_ns: int) -> str | None:
        """The one container of the pod that is to be started again; None for none or several.

        One worker at a time handles a pod: what it killed in order to restart, it starts
        next. Where anything else of the pod may start as well, nothing is concluded; what the
        relist shows that told the instance before is its sandbox.
        """
        if pod.deleted or pod.preempted or pod.rejected:
            return None
        of_pod = self._containers.of(pod)
        awaited = [name for name in of_pod.current if self._is_awaited(pod, name)]
        if pod.evicted or len(awaited) != 1 or of_pod.unstarted - {awaited[0]}:
            return None
        since = self._containers[of_pod.current[awaited[0]]].seen_ts_ns or 0
        if ts_ns - since < _RELIST_NS:
            return None
        if any(each.died and each.ended_ns >= since for each in self._nameless(pod)):
            return None  # what ended before the last start is over, or waits and is reported
        sandboxes = (self._containers.get(other) for other in of_pod.sandboxes)
        if any(each is not None and each.died and each.ended_ns >= since for each in sandboxes):
            return None
        return awaited[0]

    def _is_awaited(self, pod: Pod, name: str) -> bool:
        of_pod = self._containers.of(pod)
        container = self._containers[of_pod.current[name]]
        if container.killed_for in _RESTARTING:
            return True
        return container.died is not None and name in of_pod.backed_off

    def _nameless(self, pod: Pod) -> list[Container]:
        """What may be any of its containers, or its sandbox."""
        found = (self._containers[other] for other in self._containers.of(pod).unnamed)
        return [each for each in found if each.name is None and not each.sandbox]

    def has_sandbox(self, pod: Pod) -> bool:
        """Its sandbox is known, and runs."""
        found = (self._containers.get(other) for other in self._containers.of(pod).sandboxes)
        return any(each is None or each.died is None for each in found)

    def _left_over(self, container: Container, ts_ns: int) -> bool:
        """Beside the container of a one-container pod only the sandbox has an ID.

        It is the other ID when the container's is known, or when it was there a relist
        before: a sandbox is older than its containers.
        """
        pod, of_pod = container.pod, self._containers.of(container.pod)
        names = self._specified(pod)
        if len(names) != 1:
            return False
        others = [
            other
            for other in of_pod.unnamed - {container.container_id}
            if self._containers[other].died is None
            and (names[0] in of_pod.current or self._is_older(other, ts_ns))
        ]
        self._is_sandbox(pod, others)
        return bool(others)

    def _is_older(self, container_id: str, ts_ns: int) -> bool:
        other = self._containers[container_id]
        seen_ns = other.seen_ts_ns
        return other.died is None and seen_ns is not None and ts_ns - seen_ns >= _RELIST_NS

    def _only_candidate(self, pod: Pod) -> str | None:
        names = self._specified(pod)
        if len(names) == 1:
            return names[0]
        started = self._containers.of(pod).started
        return next(iter(started)) if len(started) == 1 else None

    def _specified(self, pod: Pod) -> list[str]:
        """Names of the containers in the pod's spec."""
        return [each.get("name", "") for each in self._context.containers_of(pod.uid)]
