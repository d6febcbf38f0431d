"""Old schema versions become the current one when they are read.

A released ``(kind, v)`` never changes its meaning. When a body changes, its ``v`` goes up,
the old shape gets a function here that makes the next one of it, and a file with old lines
goes to ``recordings/upcast/``. Each function knows one step; ``upcast`` runs the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubeledger.model.wire.catalogue import BODY_TYPES

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]


class UpcastError(ValueError):
    """A schema version that this program does not know."""


def _probe_executed_v1(body: dict[str, Any]) -> dict[str, Any]:
    """V2 says by which handler the container was probed; v1 did not hold it."""
    return {**body, "handler": None}


def _grown(body: dict[str, Any]) -> dict[str, Any]:
    """The next version says more, and what an older one did not hold is not known."""
    return body


UPCASTERS: Mapping[tuple[str, int], Upcaster] = {
    ("cpumanager.CpuAllocationFailed", 1): _grown,
    ("cpumanager.CpuManagerStarted", 1): _grown,
    ("devicemanager.CpuManagerStateRead", 1): _grown,
    ("ledger.FindingReported", 1): _grown,
    ("lifecycle.PodEvicted", 1): _grown,
    ("memorymanager.MemoryManagerStateRead", 1): _grown,
    ("prober.ProbeExecuted", 1): _probe_executed_v1,
}
"""(kind, v) -> function from a body of that version to one of version v + 1."""


def upcast(kind: str, v: int, body: dict[str, Any]) -> dict[str, Any]:
    """A body of version ``v`` in the shape of the current version, as plain JSON values.

    Raises:
        UpcastError: the version is newer than this program, or never existed.
    """
    current = BODY_TYPES[kind].v
    if v > current:
        raise UpcastError(f"{kind} v{v} was written by a newer version (this one knows v{current})")
    for version in range(v, current):
        step = UPCASTERS.get((kind, version))
        if step is None:
            raise UpcastError(f"{kind} v{version} is not a known schema version")
        body = step(body)
    return body
