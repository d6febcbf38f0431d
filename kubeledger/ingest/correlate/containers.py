"""The containers of a bundle so far, by their IDs and by their pods."""

from __future__ import annotations

from typing import Any

from kubeledger.ingest.correlate.pods import Pod
from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.bodies.lifecycle import ContainerKilled
from kubeledger.model.record import Evidence

__all__ = ["Container", "Containers", "PodContainers"]


class Container:
    """One container ID.

    Attributes:
        name: None while no source shows it; ``sandbox`` likewise.
        kill: the kill decided for it, if any.
        died: the fact that it died, if it was seen.
        follows: the ID of the instance before, where its kill is the first that is reported it.
        seen_ts_ns: when the PLEG first reported it; None when it did not.
    """

    __slots__ = ("container_id", "died", "follows", "kill", "name", "pod", "sandbox", "seen_ts_ns")

    def __init__(self, container_id: str, pod: Pod) -> None:
        self.container_id = container_id
        self.pod = pod
        self.name: str | None = None
        self.sandbox: bool | None = None
        self.kill: Fact | None = None
        self.died: Fact | None = None
        self.follows: str | None = None
        self.seen_ts_ns: int | None = None

    @property
    def is_sandbox(self) -> bool | None:
        """Whether it is a sandbox; None when no source shows it."""
        return False if self.name is not None else self.sandbox

    @property
    def names(self) -> dict[str, Any]:
        """The fields that name it in a body."""
        return {**self.pod.names, "container": self.name, "container_id": self.container_id}

    @property
    def killed_for(self) -> str | None:
        """The reason of its kill; None without one, or when that is not known."""
        body = None if self.kill is None else self.kill.body
        return body.reason if isinstance(body, ContainerKilled) else None

    @property
    def ended_ns(self) -> int:
        """When it died; 0 when it was not seen to."""
        return 0 if self.died is None else self.died.ts_ns


class PodContainers:
    """What is known of the containers of one pod.

    Attributes:
        current: container name -> ID of the last instance seen to start.
        started: container name -> start event that no PLEG line followed yet.
        needs_sandbox: the kubelet is to start one; ``lone`` the ID that came alone after that, and
            when.
        sandboxes: IDs known to be sandboxes; ``unnamed`` those that may be anything.
        probe_kills: (container, probe type) -> ID last killed because that probe failed.
        backed_off: containers of which the log reported a back-off before their restart.
        unstarted: containers of which the log reported that they could not be started.
    """

    def __init__(self) -> None:
        self.current: dict[str, str] = {}
        self.started: dict[str, Evidence] = {}
        self.needs_sandbox = False
        self.lone: tuple[str, int] | None = None
        self.sandboxes: set[str] = set()
        self.unnamed: set[str] = set()
        self.probe_kills: dict[tuple[str, str], str] = {}
        self.backed_off: set[str] = set()
        self.unstarted: set[str] = set()


class Containers:
    """All containers of one bundle so far.

    Attributes:
        any_seen: the log shows what the PLEG sees.
    """

    def __init__(self) -> None:
        self.any_seen = False
        self._by_id: dict[str, Container] = {}
        self._of_pods: dict[Pod, PodContainers] = {}

    def get(self, container_id: str | None) -> Container | None:
        """The container with that ID; None when nothing has reported it."""
        return self._by_id.get(container_id or "")

    def __getitem__(self, container_id: str) -> Container:
        return self._by_id[container_id]

    def make(self, container_id: str, pod: Pod) -> Container:
        """The container with that ID, made when it is new."""
        container = self._by_id.get(container_id)
        if container is None:
            container = self._by_id[container_id] = Container(container_id, pod)
        return container

    def of(self, pod: Pod) -> PodContainers:
        """What is known of the containers of a pod."""
        found = self._of_pods.get(pod)
        if found is None:
            found = self._of_pods[pod] = PodContainers()
        return found

    def current(self, pod: Pod, name: str | None) -> Container | None:
        """The last instance of a container that was seen to start."""
        return self.get(self.of(pod).current.get(name or ""))
