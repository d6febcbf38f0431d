"""Whose container an ID is: the PLEG tells IDs only."""

from __future__ import annotations

from kubeledger.importers.context import BundleContext
from kubeledger.importers.links import ContainerLink, PodLink

__all__ = ["ContainerNames"]


class ContainerNames:
    """Names IDs from pod lists, start events, and what is left in a pod."""

    def __init__(self, context: BundleContext) -> None:
        self._context = context
        self._links = context.links

    def note_sandbox(self, pod: PodLink, container_id: str) -> None:
        """Take down that the ID is the sandbox of the pod."""
        pod.sandboxes.add(container_id)
        self._links.container(container_id, pod).sandbox = True

    def find(self, container: ContainerLink) -> None:
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
        elif pod.sandboxes or self._left_over(container):
            # The ID is no sandbox of its pod, so it is a container.
            container.name = self._only_candidate(pod)
        else:
            pod.unnamed.add(container_id)

    def _left_over(self, container: ContainerLink) -> bool:
        """Beside the container of a one-container pod only the sandbox has an ID."""
        pod = container.pod
        names = _container_names(self._context, pod)
        others = pod.unnamed - {container.container_id}
        if len(names) != 1 or names[0] not in pod.current or not others:
            return False
        for container_id in others:
            self.note_sandbox(pod, container_id)
        return True

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
