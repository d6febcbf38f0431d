"""The results cache that workers write and the rest of the kubelet reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

Result = Literal["Success", "Failure", "UNKNOWN"]

SUCCESS: Final = "Success"
FAILURE: Final = "Failure"
UNKNOWN: Final = "UNKNOWN"

INITIAL: dict[str, Result] = {"liveness": SUCCESS, "readiness": FAILURE, "startup": UNKNOWN}
"""What a worker caches when it meets a container (a startup probe is not yet started)."""

NO_CONTAINER: Final = "://"
"""How the kubelet writes the container ID of a worker that has seen no container."""


class Update(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A change of a cached result, on its way to the sync loop."""

    container_id: str = msgspec.field(name="containerID")
    result: Result


class Results:
    """Results by container ID of one probe type, with the updates not yet taken.

    An update is sent only when the cached value changes; removing sends none, so a result
    set again after a removal is sent again.

    Source: v1.20.2 pkg/kubelet/prober/results/results_manager.go manager
    Differs: updates are kept in a list; the kubelet's channel of 20 blocks its writers.
    """

    __slots__ = ("cache", "updates")

    def __init__(self, cache: dict[str, Result] | None = None) -> None:
        self.cache: dict[str, Result] = {} if cache is None else cache
        self.updates: list[Update] = []

    def set(self, container_id: str, result: Result) -> None:
        """Store a result; a change becomes an update."""
        if self.cache.get(container_id) != result:
            self.cache[container_id] = result
            self.updates.append(Update(container_id, result))

    def remove(self, container_id: str) -> None:
        self.cache.pop(container_id, None)

    def take_updates(self) -> Sequence[Update]:
        """The updates since the last call, oldest first."""
        if not self.updates:
            return ()
        taken = self.updates
        self.updates = []
        return taken


def parse_container_id(text: str) -> str:
    """The ID as the kubelet holds it; anything but ``type://id`` becomes the empty ID.

    Source: v1.20.2 pkg/kubelet/container/runtime.go ContainerID.ParseString
    Differs: the ID stays text in the form that String gives.
    """
    parts = text.strip('"').split("://")
    return f"{parts[0]}://{parts[1]}" if len(parts) == 2 else NO_CONTAINER
