"""Sources that tell the same fact: a refusal's line and status, settings and node object."""

from __future__ import annotations

from typing import Final

from kubeledger.kube.quantity import Quantity, QuantityError
from kubeledger.lifecycle.records import PodRejected
from kubeledger.machine import Record
from kubeledger.node.records import NodeObserved
from kubeledger.node.state import NodeState
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.rules.admission.nodes import Nodes

__all__ = ["compare_allocatable", "compare_refusal"]

_STATUS_PREFIXES: Final = ("Pod was rejected: ", "Pod ", "")
_SETTLED_NS: Final = 60 * NS_PER_S
"""So long after its start the kubelet has written the node's status."""
_COMPARED: Final = ("cpu", "memory", "ephemeral-storage", "pods")


def compare_refusal(
    bench: Bench, record: Record, body: PodRejected, shown: tuple[int, str, str] | None
) -> None:
    """The pod's status says the same as the refusal.

    ``shown`` is the record of a list, and reason and message of the status in it.
    """
    if shown is None:
        return
    seq, reason, message = shown
    bare = {message.removeprefix(prefix).rstrip() for prefix in _STATUS_PREFIXES}
    if reason != body.reason or body.message.rstrip() not in bare:
        bench.contradict(
            record.ts_ns,
            f"pod/{body.namespace}/{body.pod}",
            "the pod's status and the log tell different things about its refusal",
            (record.seq, f"{body.reason}: {body.message}"),
            (seq, f"{reason}: {message}"),
        )


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
