"""The kubelet's words for refusing a pod, in log lines and in the status that it sets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kubeledger.kubelet.kube.statuses import statuses_in
from kubeledger.model.patterns import regex

_NAMES = """
AppArmor EmptyPodSharedPoolError InitContainerRestartPolicyForbidden InvalidNodeInfo NodeAffinity
NodeName NodePorts NodeShutdown NoNewPrivs PodFeatureUnsupported PodLevelResourcesNotSupported
PodOSNotSupported PodOSSelectorNodeLabelDoesNotMatch ProcMount SMTAlignmentError
SupplementalGroupsPolicyNotSupported SysctlForbidden TaintToleration TopologyAffinityError
UnexpectedAdmissionError UnexpectedPredicateFailureType UnknownReason
VolumeAttachmentLimitExceeded
"""
_REASONS = frozenset(_NAMES.split())
_INSUFFICIENT = regex(r"Node didn't have enough resource: ([^,\s]+), ")
_PREDICATE = regex(r"Predicate (\S+) failed")
RECOVERY = "Unexpected error while attempting to recover from admission failure: "
"""What stands before an error of preemption."""
PREEMPTING = "Preempting"
"""Reason of the status that the kubelet sets for a victim, and of the event that it sends."""
_BEGINS = {
    "Unexpected error while attempting to recover": "UnexpectedAdmissionError",
    "Update plugin resources failed": "UnexpectedAdmissionError",
    "Allocate failed due to ": "UnexpectedAdmissionError",
    "GeneralPredicates failed due to unknown reason": "UnknownReason",
    "GeneralPredicates failed due to ": "UnexpectedPredicateFailureType",
    "SupplementalGroupsPolicy=": "SupplementalGroupsPolicyNotSupported",
    "node has conditions: ": "Evicted",
}
"""What messages begin with, and their reasons."""
_NOT_AT_ADMISSION = frozenset({"DeadlineExceeded", PREEMPTING, "Terminated"})
_STATUS_PREFIXES = ("Pod was rejected: ", "Pod ")
_FAILED_STATUS = regex(r"\(\d+, \{Failed \[\] (?P<message>.+?) (?P<reason>\w+)    \[\] ", re.DOTALL)


def is_refusal(reason: str, message: str) -> bool:
    """Whether a warning about a pod being admitted can be its refusal.

    A pod that is evicted has the same reason as one that is refused under pressure, and in all
    versions another message.
    """
    if reason == "Evicted":
        return "The node had condition: " in message
    return reason in _REASONS or reason.startswith("OutOf")


def reason_of_message(message: str) -> str | None:
    """The reason that goes with a refusal's message; None for a message of no refusal.

    The lines of 1.20 hold the message only; the kubelet makes both from the same error.
    """
    if insufficient := _INSUFFICIENT.match(message):
        return f"OutOf{insufficient[1]}"
    if predicate := _PREDICATE.match(message):
        return predicate[1]
    begins = (reason for begin, reason in _BEGINS.items() if message.startswith(begin))
    return next(begins, None)


def failed_status(text: str) -> tuple[str, str] | None:
    """Reason and message of a status that the kubelet sets when it refuses or preempts a pod.

    1.20 logs it: no conditions, a message and a reason, no addresses.
    """
    match = _FAILED_STATUS.match(text)
    return None if match is None else (match["reason"], match["message"])


def rejection_in_status(statuses: Sequence[dict[str, Any]]) -> tuple[str, str] | None:
    """Reason and message of a pod whose statuses show a refusal and never a container.

    The message is without what the kubelet puts before it in the status.
    """
    if any(_had_container(status) for status in statuses):
        return None
    for status in statuses:
        reason, message = status.get("reason"), status.get("message") or ""
        if status.get("phase") != "Failed" or not reason or reason in _NOT_AT_ADMISSION:
            continue
        if reason == "Evicted" and not is_refusal(reason, message):
            continue
        if message.startswith(_STATUS_PREFIXES):
            return str(reason), without_prefix(message)
    return None


def without_prefix(message: str) -> str:
    """The message of a status without what the kubelet puts before it there."""
    prefix = next((prefix for prefix in _STATUS_PREFIXES if message.startswith(prefix)), "")
    return message.removeprefix(prefix)


def was_synced(status: dict[str, Any]) -> bool:
    """Whether only a pod worker can have written the status: the pod had been admitted."""
    if _had_container(status) or status.get("phase") in ("Running", "Succeeded"):
        return True
    # Of a refused pod the kubelet reports no containers, and the API server none at all.
    return status.get("phase") == "Pending" and any(statuses_in(status))


def _had_container(status: dict[str, Any]) -> bool:
    return any(entry.get("containerID") for entry in statuses_in(status))
