"""Sources that tell the same fact: a refusal's line, event and status; the node's allocatable."""

from __future__ import annotations

from typing import Final

from kubeledger.kube.quantity import Quantity, QuantityError
from kubeledger.lifecycle.records import PodRejected
from kubeledger.machine import Record
from kubeledger.node.records import NodeObserved
from kubeledger.node.state import NodeState
from kubeledger.units import NS_PER_S
from kubeledger.verify.admission.foresight import ListedFacts
from kubeledger.verify.admission.nodes import Nodes
from kubeledger.verify.bench import Bench

__all__ = ["compare_allocatable", "compare_refusal"]

_STATUS_PREFIXES: Final = ("Pod was rejected: ", "Pod ")
_TELLING: Final = (
    "Pod admission denied",
    "Predicate failed on Pod",
    "Event occurred",
    "Event(v1.ObjectReference",
)
"""Lines that hold the whole message of a refusal."""
_LONGEST: Final = 2048
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
            place = evidence.file if evidence.line is None else f"{evidence.file}:{evidence.line}"
            bench.contradict(
                record.ts_ns,
                subject,
                "lines of the log tell different things about one refusal",
                (record.seq, f"{body.reason}: {body.message}"),
                (record.seq, f"{place}: {text}"),
            )


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
