"""Why a container was killed, from what is known of its pod by then.

What concerns a container alone is in the message. Of a pod that is stopped as a whole the
message says nothing: then what became of the pod shows.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubeledger.ingest.correlate.containers import Container
from kubeledger.ingest.correlate.endings import EndingsAssembler
from kubeledger.ingest.correlate.evictions import EvictionsAssembler
from kubeledger.ingest.correlate.pods import Pod
from kubeledger.ingest.correlate.preemption import PreemptionAssembler
from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.bodies.lifecycle import PodTerminating
from kubeledger.model.bodies.prober import ProbeTransitioned

__all__ = ["KillReasons"]

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


class KillReasons:
    """What is known of the pods whose containers are killed."""

    def __init__(
        self,
        preemption: PreemptionAssembler,
        evictions: EvictionsAssembler,
        endings: EndingsAssembler,
        failures: Mapping[tuple[Pod, str, str], Fact],
    ) -> None:
        """Ask these; ``failures``: pod, container, probe type -> last transition to failure."""
        self._preemption = preemption
        self._evictions = evictions
        self._endings = endings
        self._failures = failures

    def eviction_of(self, pod: Pod) -> Fact | None:
        """The eviction that is known of a pod."""
        return self._evictions.of(pod)

    def of(
        self, container: Container, message: str | None, eviction: Fact | None
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
                failure = self._failures.get((pod, container.name or "", probe_type))
                return reason, failure if _is_of(failure, container) else None
        fact = self._endings.begun.get(pod)
        ending = self._ending(pod)
        if ending == "node_shutdown":
            return ending, fact
        if pod in self._preemption.victims:
            return "preempted", self._preemption.victims[pod]
        if pod in self._preemption.reported_victims:
            return "preempted", None
        if self._evictions.of(pod) is not None:
            return "evicted", eviction
        if ending is not None:
            return ending, (ending == "pod_deleted" and pod.deleted) or fact
        if pod.deleted is not None:
            return "pod_deleted", pod.deleted
        return ("sandbox_changed" if pod in self._endings.without_sandbox else None), None

    def _ending(self, pod: Pod) -> str | None:
        """Why its worker stops the pod; None where that is not known."""
        fact = self._endings.begun.get(pod)
        if fact is None or not isinstance(fact.body, PodTerminating):
            return None
        if fact.body.reason == "ended" and pod in self._endings.past_deadline:
            return "deadline_exceeded"
        return _OF_ENDING.get(fact.body.reason)


def _is_of(failure: Fact | None, container: Container) -> bool:
    """A failure of an earlier instance does not kill the present one."""
    if failure is None or not isinstance(failure.body, ProbeTransitioned):
        return False
    return failure.body.container_id in (None, container.container_id)
