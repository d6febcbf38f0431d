"""What the shell offers after Tab: names that the ledger knows.

Names of pods and containers come from the ledger's newest snapshots, so that no record is read;
where there is none, nothing is offered. A completion is never an error: it writes nothing, and
offers nothing where something is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_SNAPSHOTS_MAX = 6
_PARTS = (
    "kubelet", "machine", "pods", "devices", "claims", "resources", "cpus", "memory", "topology",
    "probes", "images", "pulls", "cgroups", "preemptions", "settings", "counts",
)  # fmt: skip

Complete = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def _completion(names: Callable[[click.Context, str], Iterable[str]]) -> Complete:
    """A completion that offers what begins with the word so far, and never fails."""

    @wraps(names)
    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        try:
            found = sorted(set(names(ctx, incomplete)))
        except Exception:
            return []
        return [CompletionItem(name) for name in found if name.startswith(incomplete)]

    return complete


@_completion
def complete_nodes(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """Nodes of the ledger."""
    return _node_names(ctx)


@_completion
def complete_pods(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """Pods by name; with their namespace once there is a slash."""
    return [f"{ns}/{name}" if "/" in incomplete else name for ns, name, _ in _pods(ctx)]


@_completion
def complete_probed(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """What ``probe`` takes: pods with their namespace, and their containers after a slash."""
    if incomplete.count("/") < 2:
        return [f"{ns}/{name}" for ns, name, _ in _pods(ctx)]
    return [f"{ns}/{name}/{each}" for ns, name, own in _pods(ctx) for each in own]


@_completion
def complete_containers(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """Containers, of the pod if one is given."""
    pod = ctx.params.get("pod")
    return [
        container
        for ns, name, containers in _pods(ctx)
        if pod in (None, name, f"{ns}/{name}")
        for container in containers
    ]


@_completion
def complete_targets(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """What ``why`` takes: pods by name, and what follows on ``pod/`` and ``container/``."""
    found = _pods(ctx)
    if incomplete.startswith("pod/"):
        return [f"pod/{ns}/{name}" for ns, name, _ in found]
    if incomplete.startswith("container/"):
        return [f"container/{ns}/{name}/{each}" for ns, name, own in found for each in own]
    if "/" in incomplete:
        return [f"{name}/{each}" for _, name, own in found for each in own]
    return ["pod/", "container/", "image/", "device/", "cgroup/", "node", *(n for _, n, _ in found)]


@_completion
def complete_resources(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """What ``get`` shows."""
    return ("pods", "devices", "images", "probes")


@_completion
def complete_objects(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """Names after ``get RESOURCE``."""
    resource = str(ctx.params.get("resource") or "")
    return [name for _, name, _ in _pods(ctx)] if resource.startswith(("po", "probe")) else ()


@_completion
def complete_queries(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """Shipped queries."""
    from kubeledger.analyze.sql.views import load_library

    return load_library()


@_completion
def complete_fleet_queries(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """Shipped queries over a lake."""
    from kubeledger.fleet.query import fleet_queries

    return fleet_queries()


@_completion
def complete_kinds(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """Kinds of records, whole or their last part."""
    from kubeledger.model.wire.catalogue import BODY_TYPES

    return [each for kind in BODY_TYPES for each in (kind, kind.rpartition(".")[2])]


@_completion
def complete_parts(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """Parts of the state, separated by commas."""
    before, comma, _ = incomplete.rpartition(",")
    return [f"{before}{comma}{part}" for part in _PARTS if part not in before.split(",")]


def _node_names(ctx: click.Context) -> list[str]:
    from kubeledger.ledger.ledger import Ledger

    return Ledger.open(_ledger(ctx)).nodes()


def _ledger(ctx: click.Context) -> Path:
    return Path(ctx.params.get("ledger") or os.environ.get("KUBELEDGER") or ".kubeledger")


def _pods(ctx: click.Context) -> list[tuple[str, str, list[str]]]:
    """(namespace, name, containers) of the pods in some snapshots of each node."""
    from kubeledger.ledger.ledger import Ledger

    ledger = Ledger.open(_ledger(ctx))
    asked = ctx.params.get("node")
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for node in [asked] if asked else ledger.nodes():
        store = ledger.snapshots(node)
        seqs = store.seqs()
        for seq in seqs[:: max(1, -(-len(seqs) // _SNAPSHOTS_MAX))] + seqs[-1:]:
            for namespace, name, containers in _pods_in(store.peek(seq)):
                found.setdefault((namespace, name), {}).update(containers)
    return [(namespace, name, list(containers)) for (namespace, name), containers in found.items()]


def _pods_in(state: bytes | None) -> list[tuple[str, str, dict[str, Any]]]:
    """Pods of a snapshot of any version: only these fields are looked at."""
    import msgspec

    if state is None:
        return []
    pods = msgspec.json.decode(state, type=dict[str, Any])["lifecycle"]["pods"].values()
    return [(each["namespace"], each["name"], each.get("containers", {})) for each in pods]
