"""Whether the kubelet counted a pod as active, so that it kept what its containers hold."""

from __future__ import annotations

from kubeledger.lifecycle.records import ContainerDied, PodConfigChanged, PodListed, PodTerminated
from kubeledger.lifecycle.records import ContainerStarted as Started
from kubeledger.lifecycle.state import PodState
from kubeledger.machine import Body, Record
from kubeledger.node.state import NodeState
from kubeledger.units import NS_PER_S
from kubeledger.verify.evidence.restarting import Restarting
from kubeledger.verify.pods import PodRegister

__all__ = ["Activity", "is_active"]

_TOLD_LATE_NS = 2 * NS_PER_S
"""The end of a container is told so long after it, and its pod let go of meanwhile."""


class Activity:
    """What lists and containers show of pods at later times, and which pods came when.

    Attributes:
        kinds: records it has to be told of in the first reading.
    """

    kinds: tuple[type[Body], ...] = (ContainerDied, Started, PodConfigChanged, PodListed)

    def __init__(self, pods: PodRegister) -> None:
        """``pods``: what lists show of them."""
        self._pods = pods
        self._ran: dict[str, int] = {}
        self._adds: dict[str, list[int]] = {}
        self._ended: dict[str, Record] = {}
        self._sources_ready = False

    def foresee(self, record: Record) -> None:
        """First reading: what shows that a pod was alive then, and pods that were added."""
        body = record.body
        uid = getattr(body, "pod_uid", None) or ""
        if isinstance(body, PodConfigChanged):
            if body.operation == "ADD":
                self._adds.setdefault(uid, []).append(record.ts_ns)
        elif uid and (not isinstance(body, PodListed) or _shows_running(body)):
            self._ran[uid] = max(self._ran.get(uid, 0), record.ts_ns)

    def ended(self, record: Record, body: PodTerminated) -> None:
        """A pod ended."""
        if body.pod_uid:
            self._ended[body.pod_uid] = record

    def added(self, body: PodConfigChanged) -> None:
        """A pod came, perhaps with the UID of one before it.

        Before the API server was heard nothing is let go of: other pods may come from it.
        """
        self._sources_ready = self._sources_ready or body.source == "api"
        if body.operation == "ADD":
            self._ended.pop(body.pod_uid or "", None)

    def restarted(self) -> None:
        """A new process has to find out anew who ended."""
        self._ended.clear()
        self._sources_ready = False

    def came_back(self, uid: str) -> bool:
        """Whether the pod was added more than once, as static pods are, under one UID."""
        return len(self._adds.get(uid, ())) > 1

    def lived(self, uid: str, ts_ns: int) -> bool:
        """Whether the pod was alive at some later time, and had not come anew meanwhile."""
        ran = self._ran.get(uid, 0)
        again = any(ts_ns < added <= ran for added in self._adds.get(uid, ()))
        return ran > ts_ns + _TOLD_LATE_NS and not again

    def surely_alive(self, state: NodeState, uid: str, ts_ns: int) -> str | None:
        """Words for why the pod was active then and stayed so; None where that is not sure."""
        active, said = is_active(state, self._pods, uid)
        return said if active and self.lived(uid, ts_ns) else None

    def inactive(self, state: NodeState, uid: str) -> str | None:
        """Words for why the pod did not count as active; None where it did or may have."""
        active, said = is_active(state, self._pods, uid)
        return said if active is False else None

    def end_of(self, uid: str) -> Record | None:
        """The record of a pod's end, once it was due to be noticed; None before."""
        return self._ended.get(uid) if self._sources_ready else None


def is_active(
    state: NodeState, pods: PodRegister, key: str, since_ns: int = 0
) -> tuple[bool | None, str]:
    """Whether the kubelet counted a pod as active (None: not certain), and why so.

    Args:
        state: just before.
        pods: what lists show of them.
        key: of the pod.
        since_ns: what was seen to run before this does not count: its end may not be told.
    """
    pod = state.lifecycle.pods.get(key)
    if pod is None:
        return False, "the pod was gone from the node"
    if pod.ended:
        ended = pod.phase if pod.phase in ("Failed", "Succeeded") else "terminated"
        return False, f"the pod had ended ({ended})"
    if pod.removed:
        return False, "no config source had the pod any more"
    if pod.kubelet_run < state.lifecycle.kubelet_run:
        return False, "the kubelet had no word of the pod since it started"
    if pod.deleting:
        if pod.runs():
            return None, "its containers may still have run"
        return False, "the pod was deleted and none of its containers ran"
    if since_ns and not _seen(pod, since_ns):
        return None, "nothing is told of it since the log begins"
    if pod.runs():
        running = next((name for name, c in sorted(pod.containers.items()) if c.running), "?")
        return True, f"container {running} of it ran"
    listed = pods.at(pod.since_ts_ns, pod.uid, pod.namespace, pod.name)
    if pod.admitted and Restarting(listed, pod.restart_policy).always:
        return True, "it was admitted, and its containers are always started again"
    return None, "its phase is not known"


def _seen(pod: PodState, since_ns: int) -> bool:
    times = [pod.decided_ts_ns, *(c.started_ts_ns for c in pod.containers.values())]
    return any(ts_ns is not None and ts_ns >= since_ns for ts_ns in times)


def _shows_running(body: PodListed) -> bool:
    status = body.status or {}
    statuses = status.get("containerStatuses")
    return isinstance(statuses, list) and any(
        isinstance(entry, dict) and (entry.get("state") or {}).get("running") for entry in statuses
    )
