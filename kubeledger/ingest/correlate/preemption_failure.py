"""The fact that no set of victims was found, told by the line that also tells the refusal."""

from __future__ import annotations

from kubeledger.ingest.correlate.links import Links, PodLink
from kubeledger.ingest.sources.facts import Fact
from kubeledger.ingest.sources.items import LogLine
from kubeledger.model.bodies.preemption import PreemptionFailed

__all__ = ["note_failure"]


def note_failure(links: Links, pod: PodLink, line: LogLine, error: str) -> None:
    """Queue the fact, once an admission; whoever reads the line first does it.

    The refusal names it as its cause, so it must be there before the refusal is.
    """
    if pod.preemption_failure is not None:
        return
    body = PreemptionFailed(
        preemptor_namespace=pod.namespace,
        preemptor_pod=pod.name,
        preemptor_uid=pod.uid,
        # The text holds what would still be missing with all victims gone, which is not
        # what was missing at admission.
        insufficient=(),
        error=error,
    )
    pod.preemption_failure = links.queue.add(
        Fact(line.ts_ns, body, (line.evidence,), cause=pod.added)
    )
