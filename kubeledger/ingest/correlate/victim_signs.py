"""What the kubelet sets and sends for a victim of preemption: a status and an event.

Both hold the same reason and message. Where the lines of the choice are lost, they tell of
it still.
"""

from __future__ import annotations

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.links import PodLink

__all__ = ["is_victim_sign", "shown_as_victim"]

_REASON = "Preempting"
_MESSAGE = "Preempted in order to admit critical pod"


def is_victim_sign(reason: str, message: str) -> bool:
    """Whether a status or an event is that of a victim, be it with one wrong word."""
    return reason == _REASON or message == _MESSAGE


def shown_as_victim(context: BundleContext, pod: PodLink) -> bool | None:
    """Whether a list or an event of the API shows the pod preempted; None: none shows the pod."""
    known = context.pods.get(pod.uid or "")
    statuses = [] if known is None else known.statuses
    if any(status.get("reason") == _REASON for status in statuses):
        return True
    if ("Pod", pod.namespace, pod.name, _REASON, _MESSAGE) in context.events:
        return True
    return False if statuses else None
