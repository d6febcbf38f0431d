"""Whose container an ID is: the PLEG tells IDs only."""

from __future__ import annotations

from kubeledger.importers.context import BundleContext
from kubeledger.importers.links import ContainerLink, PodLink
from kubeledger.units import NS_PER_S

__all__ = ["ContainerNames"]

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

    def find(self, container: ContainerLink, ts_ns: int) -> None:
        """Find out whose container it is, if that is not known."""
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
        else:
            pod.unnamed.add(container_id)

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
