"""Whose container an ID is: the PLEG tells IDs only."""

from __future__ import annotations

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.links import ContainerLink, PodLink
from kubeledger.model.bodies.lifecycle import ContainerKilled
from kubeledger.model.units import NS_PER_S

__all__ = ["ContainerNames"]

_RESTARTING = ("liveness_probe", "startup_probe", "spec_changed")
"""Reasons of kills that a restart follows."""
_SOON_NS = 5 * NS_PER_S
"""A first restart waits for nothing; its back-off is told as soon as the next end is."""
_RELIST_NS = NS_PER_S // 2
"""Events this far apart are of two relists: the PLEG waits a second between them."""


class ContainerNames:
    """Names IDs from pod lists, start events, and what is left in a pod."""

    def __init__(self, context: BundleContext) -> None:
        self._context = context
        self._links = context.links
        self._by_pod: dict[str, set[str]] | None = None

    def note_sandbox(self, pod: PodLink, container_id: str) -> None:
        """Take down that the ID is the sandbox of the pod."""
        pod.sandboxes.add(container_id)
        self._links.container(container_id, pod).sandbox = True

    def find(self, container: ContainerLink, ts_ns: int, *, may_follow: bool) -> None:
        """Find out whose container it is, if that is not known.

        ``may_follow``: it has just started, so it may be what a container of the pod that
        ended became.
        """
        self._settle_lone(container, ts_ns)
        if container.name is not None or container.sandbox:
            return
        container_id, pod = container.container_id, container.pod
        known = self._context.containers.get(container_id)
        instance = self._links.instance(self._context, container_id)
        if known is not None and known.sandbox:
            container.sandbox = True
            pod.sandboxes.add(container_id)
        elif known is not None and known.container is not None:
            container.name = known.container
        elif instance is not None:
            container.name = instance.container
        else:
            if self.has_sandbox(pod) or self._left_over(container, ts_ns):
                # A pod has one sandbox at a time, so the ID is a container.
                container.name = self._only_candidate(pod)
            if container.name is None and may_follow:
                container.name = self._awaited(pod)
            if container.name is None:
                pod.unnamed.add(container_id)

    def _settle_lone(self, container: ContainerLink, ts_ns: int) -> None:
        """The first ID after a new sandbox was called for is that, if it came in a relist alone.

        A container that is in the same relist is told before the sandbox.
        """
        pod = container.pod
        if pod.lone is not None:
            lone_id, since_ns = pod.lone
            pod.lone = None
            if ts_ns - since_ns >= _RELIST_NS and lone_id in pod.unnamed:
                self.note_sandbox(pod, lone_id)
                pod.unnamed.discard(lone_id)
        elif pod.needs_sandbox:
            pod.lone = container.container_id, ts_ns
        pod.needs_sandbox = False

    def backed_off(self, pod: PodLink, name: str, ts_ns: int) -> ContainerLink | None:
        """A back-off names the container of a pod in which there is but one.

        Returns:
            The instance that ended last, where nothing had named it.
        """
        links = self._nameless(pod)
        running = [link for link in links if link.died is None]
        ended = [link for link in links if link.died is not None]
        # The sandbox was seen, and nothing else runs: all of the pod is in the log.
        if pod.current or not ended or len(running) != (not self.has_sandbox(pod)):
            return None
        last = max(ended, key=_ended_ns)
        since_ns = last.seen_ts_ns
        if since_ns is None or not 0 <= ts_ns - _ended_ns(last) <= _SOON_NS:
            return None
        if any(_ended_ns(link) >= since_ns for link in ended if link is not last):
            return None
        for link in running:  # beside the only container only its sandbox has an ID
            self.note_sandbox(pod, link.container_id)
            pod.unnamed.discard(link.container_id)
        last.name = name
        pod.current[name] = last.container_id
        pod.unnamed.discard(last.container_id)
        return last

    def predecessor(self, container: ContainerLink, ts_ns: int) -> str | None:
        """The nameless instance that a container with a name follows; None if it may be another.

        The log names the containers of a pod late, as it kills them. When all of these but one
        run, and that one starts right after something beside them ended, then that was it: an
        init container ends before they start.
        """
        pod, name = container.pod, container.name
        links = self._links.containers
        others = self._names_of(pod) - {name}
        running = [links[pod.current[other]] for other in others if other in pod.current]
        if name is None or not others or len(running) < len(others):
            return None
        ended = [
            link
            for link in self._nameless(pod)
            if link.died is not None and 0 <= ts_ns - _ended_ns(link) <= _SOON_NS
        ]
        if len(ended) != 1 or any(
            link.died is not None or (link.seen_ts_ns or ts_ns) >= _ended_ns(ended[0])
            for link in running
        ):
            return None
        ended[0].name = name
        pod.unnamed.discard(ended[0].container_id)
        return ended[0].container_id

    def _names_of(self, pod: PodLink) -> set[str]:
        """Containers of a pod that lists or kills name."""
        if self._by_pod is None:
            self._by_pod = {}
            for known in self._context.containers.values():
                if known.container is not None:
                    self._by_pod.setdefault(known.pod_uid, set()).add(known.container)
        return self._by_pod.get(pod.uid or "", set())

    def _awaited(self, pod: PodLink) -> str | None:
        """The one container of the pod that is to be started again; None for none or several.

        One worker at a time handles a pod: what it killed in order to restart, it starts
        next. Where anything else of the pod may start as well, nothing is concluded.
        """
        if pod.deleted or pod.victim or pod.evicting or pod.rejected:
            return None
        links = self._links.containers
        awaited = [name for name in pod.current if self._is_awaited(pod, name)]
        if len(awaited) != 1 or pod.unstarted - {awaited[0]}:
            return None
        since = links[pod.current[awaited[0]]].seen_ts_ns or 0
        if any(link.died and link.died.ts_ns >= since for link in self._nameless(pod)):
            return None  # what ended before the last start is over, or waits and is told of
        ends = [links[other].died for other in pod.sandboxes if other in links]
        if any(end is not None and end.ts_ns >= since for end in ends):
            return None
        return awaited[0]

    def _is_awaited(self, pod: PodLink, name: str) -> bool:
        link = self._links.containers[pod.current[name]]
        kill = None if link.kill is None else link.kill.body
        if isinstance(kill, ContainerKilled) and kill.reason in _RESTARTING:
            return True
        return link.died is not None and name in pod.backed_off

    def _nameless(self, pod: PodLink) -> list[ContainerLink]:
        """What may be any of its containers, or its sandbox."""
        links = (self._links.containers[other] for other in pod.unnamed)
        return [link for link in links if link.name is None and not link.sandbox]

    def has_sandbox(self, pod: PodLink) -> bool:
        """Its sandbox is known, and runs."""
        containers = self._links.containers
        return any(
            container_id not in containers or containers[container_id].died is None
            for container_id in pod.sandboxes
        )

    def _left_over(self, container: ContainerLink, ts_ns: int) -> bool:
        """Beside the container of a one-container pod only the sandbox has an ID.

        It is the other ID when the container's is known, or when it was there a relist
        before: a sandbox is older than its containers.
        """
        pod = container.pod
        names = _container_names(self._context, pod)
        if len(names) != 1:
            return False
        others = [
            other
            for other in pod.unnamed - {container.container_id}
            if names[0] in pod.current or self._is_older(other, ts_ns)
        ]
        for container_id in others:
            self.note_sandbox(pod, container_id)
        pod.unnamed.difference_update(others)
        return bool(others)

    def _is_older(self, container_id: str, ts_ns: int) -> bool:
        other = self._links.containers[container_id]
        seen_ns = other.seen_ts_ns
        return other.died is None and seen_ns is not None and ts_ns - seen_ns >= _RELIST_NS

    def _only_candidate(self, pod: PodLink) -> str | None:
        names = _container_names(self._context, pod)
        if len(names) == 1:
            return names[0]
        return next(iter(pod.started)) if len(pod.started) == 1 else None


def _container_names(context: BundleContext, pod: PodLink) -> list[str]:
    known = context.pods.get(pod.uid or "")
    spec = {} if known is None else known.spec
    keys = ("initContainers", "containers", "ephemeralContainers")
    return [entry.get("name", "") for key in keys for entry in spec.get(key) or ()]


def _ended_ns(link: ContainerLink) -> int:
    return 0 if link.died is None else link.died.ts_ns
