"""Why a container was killed, from what is known of its pod by then.

What concerns a container alone stands in the message. Of a pod that is stopped as a whole the
message says nothing: then what became of the pod tells.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubeledger.ingest.correlate.links import ContainerLink, PodLink
from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.bodies.lifecycle import PodTerminating
from kubeledger.model.bodies.prober import ProbeTransitioned

__all__ = ["reason_of_kill"]

_PHRASES = (
    ("failed liveness probe", "liveness_probe"),
    ("failed startup probe", "startup_probe"),
    ("definition changed", "spec_changed"),
    ("FailedPostStartHook", "post_start_hook"),
)
_OF_ENDING: Mapping[str, str] = {
    "deleted": "pod_deleted",
    "removed": "pod_deleted",
    "orphaned": "orphaned",
    "ended": "pod_ended",
    "shutdown": "node_shutdown",
}


def reason_of_kill(
    container: ContainerLink, message: str | None, eviction: Fact | None
) -> tuple[str | None, Fact | None]:
    """Reason of a kill and the fact that led to it, as far as either is known.

    Args:
        container: that was killed.
        message: the kubelet's.
        eviction: the one known when the kill began; a later one cannot be its cause.
    """
    pod = container.pod
    for phrase, reason in _PHRASES:
        if message is not None and phrase in message:
            probe_type = reason.partition("_")[0]
            failure = pod.failures.get((container.name or "", probe_type))
            return reason, failure if _is_of(failure, container) else None
    ending = _ending(pod)
    if ending == "node_shutdown":
        return ending, pod.ending
    if pod.victim is not None:
        return "preempted", pod.victim
    if pod.preempted:
        return "preempted", None
    if pod.evicting:
        return "evicted", eviction
    if ending is not None:
        return ending, (ending == "pod_deleted" and pod.deleted) or pod.ending
    if pod.deleted is not None:
        return "pod_deleted", pod.deleted
    return ("sandbox_changed" if pod.replaces_sandbox else None), None


def _ending(pod: PodLink) -> str | None:
    """Why its worker stops the pod; None where that is not known."""
    body = None if pod.ending is None else pod.ending.body
    if not isinstance(body, PodTerminating):
        return None
    if body.reason == "ended" and pod.past_deadline:
        return "deadline_exceeded"
    return _OF_ENDING.get(body.reason)


def _is_of(failure: Fact | None, container: ContainerLink) -> bool:
    """A failure of an earlier instance does not kill the present one."""
    if failure is None or not isinstance(failure.body, ProbeTransitioned):
        return False
    return failure.body.container_id in (None, container.container_id)
