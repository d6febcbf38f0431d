"""Which node of a lake a source is about, and under which rules it was imported and verified."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kubeledger import __version__
from kubeledger.fleet.contents import Content
from kubeledger.fleet.lake import Lake
from kubeledger.fleet.layout import DONE
from kubeledger.fleet.types import Head, NodeSpec, SourceSeen
from kubeledger.ledger.storage import node_name
from kubeledger.model.errors import BadInputError

_OF_PROBLEMS = tuple(f"analyze/problems/{module}" for module in ("rows", "table", "told"))
ROOMS = ("ingest", "kubelet", "ledger", "model", "replay", "verify", *_OF_PROBLEMS)
"""What of kubeledger records, verdicts and what went wrong depend on."""

_PACKAGE = Path(__file__).parent.parent
_SUFFIXES = (".py", ".txt")
_DIGEST_BYTES = 6


def rules_version() -> str:
    """Version of the rules by which this program imports and verifies.

    Returns:
        kubeledger's version and a digest of the source files that decide, ``0.1.0+1f0c93a5b2d7``:
        it changes with every change of them, also between releases, and with no other.
    """
    return f"{__version__}+{digest_of_code(ROOMS)}"


@cache
def digest_of_code(places: tuple[str, ...]) -> str:
    """Digest of packages and modules of kubeledger, ``verify`` or ``fleet/tables``: 12 digits."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for name in places:
        place = _PACKAGE / name
        files = place.rglob("*") if place.is_dir() else [place.with_suffix(".py")]
        for file in sorted(file for file in files if file.suffix in _SUFFIXES):
            digest.update(file.relative_to(_PACKAGE).as_posix().encode() + b"\0")
            digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()


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
        machine: its ID; None where it is not known.
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
        pods: UIDs of the pods that the lake knows of a node; asked for only where nothing else
            distinguishes nodes.

    Raises:
        BadInputError: the lake knows a node of this name, and nothing shows whether it is this one.
        StorageError: the lake cannot be read.
    """
    machines = content.machines(name)
    machine = machines[-1] if machines else None
    is_named = spec.node_name == name
    called = spec.name if is_named and spec.name is not None else name
    key = f"{spec.cluster}/{called}" if spec.cluster else called
    head = lake.head(key)
    if head is not None and head.summary.machine_id in machines:
        return Identity(key, machine, head)
    known = [*([head] if head is not None else []), *_namesakes(lake, spec, name, key)]
    for other in known:
        if other.summary.machine_id in machines:
            return Identity(other.node, machine, other)
    # Logs of a later day hardly ever name their machine: then what is in them has to.
    possible = [each for each in known if machine is None or each.summary.machine_id is None]

    def is_it(other: Head) -> bool:
        return _is_of(other, seen) or content.tells_of(name, pods(other))

    found = head if is_named and head in possible else next(filter(is_it, possible), None)
    if found is None and spec.cluster:  # in which a name is one node's
        found = next((each for each in possible if each.summary.cluster == spec.cluster), None)
    if found is not None:
        return Identity(found.node, machine or found.summary.machine_id, found)
    if possible and not spec.cluster:
        raise BadInputError(
            f"the lake knows a node {possible[0].node} already, and nothing shows whether this is "
            "the same: no machine ID, and no pod of it",
            advice=f"if it is the same: --node {possible[0].node}; if not: --cluster NAME, its own",
            file=seen.url,
        )
    if head is None or machine is None:
        return Identity(key, machine, head)
    own = f"{key.partition('@')[0]}@{machine[:_MACHINE_DIGITS]}"
    return Identity(own, machine, lake.head(own))


def _namesakes(lake: Lake, spec: NodeSpec, name: str, key: str) -> Iterator[Head]:
    """Other nodes of a name, in the cluster or in none; where none is given, in any."""
    for other in sorted(filter(None, map(node_name, lake.store.folders(DONE)))):
        cluster, _, called = other.rpartition("/")
        is_near = not spec.cluster or cluster in ("", spec.cluster)
        if other != key and called.partition("@")[0] == name and is_near:
            head = lake.head(other)
            if head is not None and (
                not spec.cluster or head.summary.cluster in (None, spec.cluster)
            ):
                yield head


def _is_of(head: Head, seen: SourceSeen) -> bool:
    return any(seen.url == known.url or seen.digest == known.digest for known in head.sources)


def pool_of(labels: Mapping[str, str]) -> str | None:
    """Name of a node's pool by its labels; None where they do not say."""
    return next((labels[label] for label in _POOL_LABELS if labels.get(label)), None)
