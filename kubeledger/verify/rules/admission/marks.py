"""The node's name, labels and taints at an instant, and how far they are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from kubeledger.kube.pod import Pod, Taint
from kubeledger.lifecycle.taints import tolerates_no_execute
from kubeledger.node.records import NodeObserved
from kubeledger.verify.rules.admission.nodes import Nodes
from kubeledger.verify.settings import UNKNOWN, Settings

__all__ = ["Marks", "hostname", "marks_at", "tolerates_short_taints"]

_OF_SHORT_LIFE: Final = tuple(
    Taint(key=f"node.kubernetes.io/{name}", effect="NoExecute")
    for name in ("not-ready", "unreachable")
)
"""Taints that come and go with the node's heartbeat."""


class Marks(NamedTuple):
    """What the node object holds besides amounts.

    Attributes:
        seqs: (n,) records that tell it.
        labels_known, taints_known: a node object shows them, and no later one others.
    """

    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    seqs: tuple[int, ...]
    labels_known: bool
    taints_known: bool


def hostname(settings: Settings) -> str | None:
    """The name that the kubelet was told to have; None when it was told none.

    Source: v1.36.2 pkg/util/node/node.go GetHostname
    """
    name = settings.get("--hostname-override")
    return name.strip().lower() or None if isinstance(name, str) else None


def marks_at(nodes: Nodes, settings: Settings, ts_ns: int, node_name: str) -> Marks:
    """Labels and taints by then."""
    shown = nodes.objects(ts_ns)
    if shown is None:
        labels = {"kubernetes.io/os": "linux", "kubernetes.io/hostname": node_name}
        return Marks(labels, _registered(settings), (), False, False)
    seq, body, following = shown
    taints = _taints(body)
    known = seq is not None and all(_taints(later) == taints for later in following)
    seqs = () if seq is None or not taints else (seq,)
    return Marks(body.labels, taints, seqs, True, known)


def tolerates_short_taints(pod: Pod) -> bool:
    """Whether no taint that was there for moments alone can have kept the pod out."""
    return tolerates_no_execute(_OF_SHORT_LIFE, pod.spec.tolerations or ())


def _registered(settings: Settings) -> tuple[Taint, ...]:
    taints = settings.get("registerWithTaints")
    if taints is UNKNOWN or not isinstance(taints, list):
        return ()
    try:
        return msgspec.convert(taints, tuple[Taint, ...])
    except msgspec.ValidationError:
        return ()


def _taints(body: NodeObserved) -> tuple[Taint, ...]:
    return tuple(_taint(taint) for taint in body.taints)


def _taint(told: Mapping[str, str]) -> Taint:
    return Taint(
        key=told.get("key", ""), value=told.get("value", ""), effect=told.get("effect", "")
    )
