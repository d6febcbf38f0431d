"""Every kind of record there is, and the type of its body."""

from __future__ import annotations

from types import ModuleType

import kubeledger.cgroups.records
import kubeledger.cpumanager.records
import kubeledger.devicemanager.records
import kubeledger.eviction.records
import kubeledger.images.records
import kubeledger.ledger.records
import kubeledger.lifecycle.records
import kubeledger.memorymanager.records
import kubeledger.node.records
import kubeledger.oom.records
import kubeledger.preemption.records
import kubeledger.prober.records
import kubeledger.topologymanager.records
from kubeledger.machine import Body

__all__ = ["BODY_TYPES"]

_MODULES: tuple[ModuleType, ...] = (
    kubeledger.cgroups.records,
    kubeledger.cpumanager.records,
    kubeledger.devicemanager.records,
    kubeledger.eviction.records,
    kubeledger.images.records,
    kubeledger.ledger.records,
    kubeledger.lifecycle.records,
    kubeledger.memorymanager.records,
    kubeledger.node.records,
    kubeledger.oom.records,
    kubeledger.preemption.records,
    kubeledger.prober.records,
    kubeledger.topologymanager.records,
)


def _body_types() -> dict[str, type[Body]]:
    types = [
        member
        for module in _MODULES
        for name in module.__all__
        if isinstance(member := getattr(module, name), type) and issubclass(member, Body)
    ]
    return {body.kind: body for body in sorted(types, key=lambda body: body.kind)}


BODY_TYPES: dict[str, type[Body]] = _body_types()
"""kind -> body type of its current schema version, sorted by kind."""
