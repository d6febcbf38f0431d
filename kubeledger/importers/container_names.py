"""Whose container an ID is: the PLEG tells IDs only."""

from __future__ import annotations

from kubeledger.importers.context import BundleContext
from kubeledger.importers.links import ContainerLink, PodLink
from kubeledger.lifecycle.records import ContainerKilled
from kubeledger.units import NS_PER_S

__all__ = ["ContainerNames"]

_RESTARTING = ("liveness_probe", "startup_probe", "spec_changed")
"""Reasons of kills that a restart follows."""
_RELIST_NS = NS_PER_S // 2
"""Events this far apart are of two relists: the PLEG waits a second between them."""


class ContainerNames:
    """Names IDs from pod lists, start events, and what is left in a pod."""

    def __init__(self, context: BundleContext) -> None:
        self._context = context
        self._links = context.links

    def note_sandbox(self, pod: PodLink, container_id: str) -> None:
        """Take down that the ID is the sandbox of the pod."""
        pod.sandboxes.add(container_id)
        self._links.container(container_id, pod).sandbox = True

    def find(self, container: ContainerLink, ts_ns: int, *, may_follow: bool) -> None:
        """Find out whose container it is, if that is not known.

        ``may_follow``: it has just started, so it may be what a container of the pod that
        ended became.
        """
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
        elif self._has_sandbox(pod) or self._left_over(container, ts_ns):
            # A pod has one sandbox at a time, so the ID is a container.
            container.name = self._only_candidate(pod)
        elif may_follow and (name := self._awaited(pod)) is not None:
            container.name = name
        else:
            pod.unnamed.add(container_id)

    def _awaited(self, pod: PodLink) -> str | None:
        """The one container of the pod that is to be started again; None for none or several.

        One worker at a time handles a pod: what it killed in order to restart, it starts
        next. Where anything else of the pod may start as well, nothing is concluded.
        """
        if pod.deleted or pod.victim or pod.evicting or pod.rejected:
            return None
        links = self._links.containers
        unnamed = (links[other] for other in pod.unnamed)
        if any(link.name is None and link.died is not None for link in unnamed):
            return None
        awaited = [name for name in pod.current if self._is_awaited(pod, name)]
        if len(awaited) != 1 or pod.unstarted - {awaited[0]}:
            return None
        since = links[pod.current[awaited[0]]].seen_ts_ns or 0
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

    def _has_sandbox(self, pod: PodLink) -> bool:
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
