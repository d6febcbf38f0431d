"""Sources that tell the same fact: a refusal's line, event and status; the node's allocatable."""

from __future__ import annotations

import re
from typing import Final

from kubeledger.devicemanager.records import AllocationFailed
from kubeledger.kube.quantity import Quantity, QuantityError
from kubeledger.lifecycle.records import PodRejected
from kubeledger.machine import Evidence, Record
from kubeledger.node.records import NodeObserved
from kubeledger.node.state import NodeState
from kubeledger.preemption.records import PodPreempted
from kubeledger.units import NS_PER_S
from kubeledger.verify.admission.foresight import ListedFacts
from kubeledger.verify.admission.nodes import Nodes
from kubeledger.verify.bench import Bench

__all__ = ["compare_allocatable", "compare_failure", "compare_kill", "compare_refusal"]

_STATUS_PREFIXES: Final = ("Pod was rejected: ", "Pod ")
_TELLING: Final = (
    "Pod admission denied",
    "Predicate failed on Pod",
    "Event occurred",
    "Event(v1.ObjectReference",
)
"""Lines that hold the whole message of a refusal."""
_LONGEST: Final = 2048
_ALLOCATION: Final = "Allocate failed due to "
_OUTCOMES: Final = (
    "evicted successfully",
    " failed to evict ",
    "Failed to evict pod",
    "Preempting pod to free up resources",
)
"""Lines about one victim, which they name."""
_SETTLED_NS: Final = 60 * NS_PER_S
"""So long after its start the kubelet has written the node's status."""
_COMPARED: Final = ("cpu", "memory", "ephemeral-storage", "pods")


def compare_refusal(
    bench: Bench, record: Record, body: PodRejected, listed: ListedFacts | None
) -> None:
    """The pod's status and all lines about the refusal say the same."""
    subject = f"pod/{body.namespace}/{body.pod}"
    shown = None if listed is None else listed.rejection(record.ts_ns)
    if shown is not None:
        seq, reason, message = shown
        bare = {message.removeprefix(prefix) for prefix in (*_STATUS_PREFIXES, "")}
        if reason != body.reason or body.message.rstrip() not in {b.rstrip() for b in bare}:
            bench.contradict(
                record.ts_ns,
                subject,
                "the pod's status and the log tell different things about its refusal",
                (record.seq, f"{body.reason}: {body.message}"),
                (seq, f"{reason}: {message}"),
            )
    for evidence in record.evidence:
        text = evidence.text
        if text is None or len(text) > _LONGEST or not any(word in text for word in _TELLING):
            continue
        names_reason = "Predicate failed on Pod" not in text
        told = body.message in _unquoted(text) and (body.reason in text or not names_reason)
        if not told:
            bench.contradict(
                record.ts_ns,
                subject,
                "lines of the log tell different things about one refusal",
                (record.seq, f"{body.reason}: {body.message}"),
                (record.seq, f"{_place(evidence)}: {text}"),
            )


def compare_failure(bench: Bench, record: Record, body: AllocationFailed) -> None:
    """All lines about a refusal by the device manager say the same.

    Lines that tell of the pod's refusal, too, are compared with that.
    """
    for evidence in record.evidence:
        text = evidence.text
        if text is None or len(text) > _LONGEST or _ALLOCATION not in text:
            continue
        if body.error not in _unquoted(text) and not any(word in text for word in _TELLING):
            bench.contradict(
                record.ts_ns,
                f"pod/{body.namespace}/{body.pod}",
                "lines of the log tell different things about one refusal",
                (record.seq, body.error),
                (record.seq, f"{_place(evidence)}: {text}"),
            )
            return


def compare_kill(bench: Bench, record: Record, body: PodPreempted) -> None:
    """The lines about a victim, which were found by its UID, name it."""
    for evidence in record.evidence:
        text = evidence.text
        if text is None or not any(word in text for word in _OUTCOMES):
            continue
        if not _names(text, body.victim_pod):
            bench.contradict(
                record.ts_ns,
                f"pod/{body.victim_namespace}/{body.victim_pod}",
                "a line about the preemption names the victim's UID and another pod",
                (record.seq, f"{body.victim_namespace}/{body.victim_pod} ({body.victim_uid})"),
                (record.seq, f"{_place(evidence)}: {text}"),
            )


def _names(text: str, pod: str) -> bool:
    return re.search(rf"(?<![a-z0-9.-]){re.escape(pod)}(?![a-z0-9.-])", text) is not None


def _place(evidence: Evidence) -> str:
    return evidence.file if evidence.line is None else f"{evidence.file}:{evidence.line}"


def _unquoted(text: str) -> str:
    for quoted, plain in (('\\"', '"'), ("\\n", "\n"), ("\\u003e", ">"), ("\\\\", "\\")):
        text = text.replace(quoted, plain)
    return text


def compare_allocatable(
    bench: Bench,
    record: Record,
    body: NodeObserved,
    nodes: Nodes,
    started_ns: int | None,
    state: NodeState,
) -> None:
    """What the node object shows is what machine and settings give."""
    if body.allocatable is None or bench.profile is None or bench.variant.settings:
        return
    if started_ns is None or record.ts_ns < started_ns + _SETTLED_NS:
        return
    reckoned = nodes.allocatable(record.ts_ns, bench.settings, bench.profile, state)
    if reckoned.missing or reckoned.inferred or bench.settings.seq not in reckoned.inputs:
        return
    for name in _COMPARED:
        if name not in body.allocatable or name not in reckoned.amounts:
            continue
        try:
            shown = Quantity.from_api(body.allocatable[name])
        except QuantityError:
            continue
        if shown != reckoned.amounts[name]:
            assert bench.settings.seq is not None
            bench.contradict(
                record.ts_ns,
                "node",
                f"the node object and the settings tell different amounts of {name} for pods",
                (record.seq, f"allocatable is {body.allocatable[name]}"),
                (bench.settings.seq, f"the settings leave {reckoned.amounts[name].canonical()}"),
            )
