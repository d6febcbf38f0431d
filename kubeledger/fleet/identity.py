"""Which node of a lake a source tells of: nodes of one name are told apart, or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kubeledger.errors import BadInputError
from kubeledger.fleet.contents import Content
from kubeledger.fleet.lake import Lake
from kubeledger.fleet.types import Head, NodeSpec, SourceSeen

__all__ = ["Identity", "identity_of", "pool_of"]

_MACHINE_DIGITS = 8

_POOL_LABELS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "karpenter.sh/nodepool",
    "karpenter.sh/provisioner-name",
    "doks.digitalocean.com/node-pool",
    "ibm-cloud.kubernetes.io/worker-pool-name",
    "k8s.scaleway.com/pool-name",
    "kops.k8s.io/instancegroup",
    "node.kubernetes.io/pool",
)
"""The first of them that a node has names its pool."""


class Identity(NamedTuple):
    """A node of the lake, that is or will be.

    Attributes:
        key: see ``docs/fleet.md``.
        machine: its ID; None where nobody tells it.
        base: what the lake has of it.
    """

    key: str
    machine: str | None
    base: Head | None


def identity_of(
    lake: Lake,
    spec: NodeSpec,
    seen: SourceSeen,
    content: Content,
    name: str,
    pods: Callable[[Head], frozenset[str]],
) -> Identity:
    """Find out which node of the lake a source's node is.

    Args:
        lake: where it will stand.
        spec: of the task.
        seen: the source.
        content: what it holds.
        name: of the node in it.
        pods: UIDs of the pods that the lake knows of a node; asked for only where nothing else
            tells nodes apart.

    Raises:
        BadInputError: the lake knows a node of this name, and nothing tells whether it is this one.
        StorageError: the lake cannot be read.
    """
    machines = content.machines(name)
    machine = machines[-1] if machines else None
    key = f"{spec.cluster}/{name}" if spec.cluster else name
    head = lake.head(key)
    if head is None:
        return Identity(key, machine, None)
    known = head.summary.machine_id
    if known in machines:
        return Identity(key, machine, head)
    if known is not None and machine is not None:
        own = f"{key}@{machine[:_MACHINE_DIGITS]}"
        return Identity(own, machine, lake.head(own))
    # Logs of a later day hardly ever tell their machine: then what is in them has to.
    namesakes = [head, *(other for at, other in lake.heads().items() if at.startswith(f"{key}@"))]
    for namesake in namesakes:
        if _is_of(namesake, seen) or content.tells_of(name, pods(namesake)):
            return Identity(namesake.node, machine or namesake.summary.machine_id, namesake)
    if spec.cluster:  # in which a name is one node's
        return Identity(key, machine or known, head)
    raise BadInputError(
        f"the lake knows a node {key} already, and nothing tells whether this is the same: no "
        "machine ID, and no pod of it",
        advice="say of which cluster it is with --cluster NAME: there a name is one node's",
        file=seen.url,
    )


def _is_of(head: Head, seen: SourceSeen) -> bool:
    return any(seen.url == known.url or seen.digest == known.digest for known in head.sources)


def pool_of(labels: Mapping[str, str]) -> str | None:
    """Name of a node's pool by its labels; None where they do not tell."""
    return next((labels[label] for label in _POOL_LABELS if labels.get(label)), None)
