"""Which node a pod of the trace ran on: as recorded, else the first that it fits on."""

from __future__ import annotations

from heapq import heappop, heappush

from kubeledger.simulate.scenario.openb_rows import TraceNode, TracePod

_WHOLE = 1000
_EVICTION_MIB = 100
_PODS_MAX = 250


class _Room:
    """What is free on a node."""

    __slots__ = ("cpu_milli", "gpus", "memory_mib", "model", "name", "pods")

    def __init__(self, node: TraceNode) -> None:
        self.name = node.name
        self.model = node.model
        self.cpu_milli = node.cpu_milli
        self.memory_mib = node.memory_mib - _EVICTION_MIB
        self.gpus = [_WHOLE] * node.gpus
        self.pods = _PODS_MAX

    def take(self, pod: TracePod) -> list[int] | None:
        """GPUs that the pod gets; None: it does not fit."""
        if self.cpu_milli < pod.cpu_milli or self.memory_mib < pod.memory_mib or not self.pods:
            return None
        if pod.gpus and (
            len(self.gpus) < pod.gpus or (pod.models and self.model not in pod.models)
        ):
            return None
        chosen: list[int] = []
        for number, free in enumerate(self.gpus):
            if len(chosen) == pod.gpus:
                break
            if free >= pod.gpu_milli:
                chosen.append(number)
        if len(chosen) < pod.gpus:
            return None
        self._change(pod, chosen, -1)
        return chosen

    def give_back(self, pod: TracePod, chosen: list[int]) -> None:
        """The pod is gone."""
        self._change(pod, chosen, 1)

    def _change(self, pod: TracePod, chosen: list[int], sign: int) -> None:
        self.cpu_milli += sign * pod.cpu_milli
        self.memory_mib += sign * pod.memory_mib
        self.pods += sign
        for number in chosen:
            self.gpus[number] += sign * pod.gpu_milli


def place_pods(nodes: list[TraceNode], pods: list[TracePod]) -> dict[str, list[TracePod]]:
    """Node -> its pods, in the order in which they were scheduled.

    Those that fit nowhere are left out. Pods whose node is recorded are where they were,
    whether they fit or not.
    """
    placed: dict[str, list[TracePod]] = {node.name: [] for node in nodes}
    rooms = [_Room(node) for node in nodes]
    ending: list[tuple[int, int, _Room, TracePod, list[int]]] = []
    for pod in sorted(pods, key=lambda each: (each.scheduled_s, each.line)):
        if pod.node:
            placed[pod.node].append(pod)
            continue
        while ending and ending[0][0] <= pod.scheduled_s:
            _, _, room, gone, chosen = heappop(ending)
            room.give_back(gone, chosen)
        for room in rooms:
            if (taken := room.take(pod)) is not None:
                placed[room.name].append(pod)
                heappush(ending, (pod.deleted_s, pod.line, room, pod, taken))
                break
    return placed
