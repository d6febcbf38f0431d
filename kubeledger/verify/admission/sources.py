"""Sources that tell the same fact: a refusal's line, event and status; the node's allocatable."""

from __future__ import annotations

import re
from typing import Final

from kubeledger.devicemanager.records import AllocationFailed
from kubeledger.kube.quantity import Quantity, QuantityError
from kubeledger.lifecycle.records import PodListed, PodRejected
from kubeledger.machine import Evidence, Record
from kubeledger.node.records import NodeObserved
from kubeledger.node.state import NodeState
from kubeledger.preemption.records import PodPreempted
from kubeledger.units import NS_PER_S
from kubeledger.verify.admission.nodes import Nodes
from kubeledger.verify.bench import Bench

__all__ = [
    "compare_allocatable",
    "compare_failure",
    "compare_kill",
    "compare_refusal",
    "compare_victim",
]

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
_EVENTS: Final = ("Event occurred", "Event(v1.ObjectReference")
_STATUS: Final = "Status Manager: adding pod"
_PREEMPTING: Final = "Preempting"
_PREEMPTED: Final = "Preempted in order to admit critical pod"
"""Reason and message that the kubelet gives every victim."""
_SETTLED_NS: Final = 60 * NS_PER_S
"""So long after its start the kubelet has written the node's status."""
_COMPARED: Final = ("cpu", "memory", "ephemeral-storage", "pods")


def compare_refusal(
    bench: Bench, record: Record, body: PodRejected, shown: tuple[int, str, str] | None
) -> str | None:
    """The pod's status and all lines about the refusal say the same.

    ``shown`` is the record of a list, and reason and message of the status in it.

    Returns:
        the message of the status where another line has it, too, and the decision's own line
        has not: two sources against one.
    """
    subject = f"pod/{body.namespace}/{body.pod}"
    bare: list[str] = []
    if shown is not None:
        seq, reason, message = shown
        bare = [message.removeprefix(prefix) for prefix in (*_STATUS_PREFIXES, "")]
        if reason != body.reason or body.message.rstrip() not in {b.rstrip() for b in bare}:
            bench.contradict(
                record.ts_ns,
                subject,
                "the pod's status and the log tell different things about its refusal",
                (record.seq, f"{body.reason}: {body.message}"),
                (seq, f"{reason}: {message}"),
            )
    status: str | None = None
    for evidence in record.evidence:
        text = evidence.text
        if text is None or len(text) > _LONGEST:
            continue
        if not any(word in text for word in (*_TELLING, _STATUS)):
            continue
        names_reason = "Predicate failed on Pod" not in text
        told = body.message in _unquoted(text) and (body.reason in text or not names_reason)
        if not told:
            status = status or next((b for b in bare if b in _unquoted(text)), None)
            bench.contradict(
                record.ts_ns,
                subject,
                "lines of the log tell different things about one refusal",
                (record.seq, f"{body.reason}: {body.message}"),
                (record.seq, f"{_place(evidence)}: {text}"),
            )
    return status


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
    """The lines about a victim name it, with the reason and the message of every victim."""
    victim = f"{body.victim_namespace}/{body.victim_pod}"
    for evidence in record.evidence:
        why = _wrong_about(evidence.text, body.victim_pod) if evidence.text else ""
        if why:
            bench.contradict(
                record.ts_ns,
                f"pod/{victim}",
                why,
                (record.seq, f"{victim} ({body.victim_uid})"),
                (record.seq, f"{_place(evidence)}: {evidence.text}"),
            )


def _wrong_about(text: str, victim: str) -> str:
    """What a line about a victim has wrong; empty if nothing."""
    if any(word in text for word in _OUTCOMES):
        named = _names(text, victim)
        return "" if named else "a line about the preemption names the victim's UID and another pod"
    event = any(word in text for word in _EVENTS)
    if not event and _STATUS not in text:
        return ""
    what = "an event" if event else "the status that the kubelet set"
    if event and not _names(text, victim):
        return f"{what} tells of a victim that no line about the preemption names"
    if _PREEMPTING not in text or _PREEMPTED not in text:
        return f"{what} is not that of a victim of preemption"
    return ""


def compare_victim(bench: Bench, record: Record, body: PodListed, victims: dict[str, int]) -> None:
    """A list shows a victim with the reason and the message of every victim.

    Where both differ somebody else may have set them. ``victims`` are UIDs and the records of
    their preemptions; one that is contradicted is taken out.
    """
    status = body.status or {}
    if status.get("phase") != "Failed" or body.pod_uid not in victims:
        return
    told = (status.get("reason"), status.get("message"))
    if (told[0] == _PREEMPTING) != (told[1] == _PREEMPTED) and told[0] and told[1]:
        bench.contradict(
            record.ts_ns,
            f"pod/{body.namespace}/{body.pod}",
            "the status of a victim of preemption is not that of one",
            (victims.pop(body.pod_uid), f"{_PREEMPTING}: {_PREEMPTED}"),
            (record.seq, f"{told[0]}: {told[1]}"),
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
