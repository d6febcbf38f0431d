"""Every kind of record there is, and the type of its body."""

from __future__ import annotations

from types import ModuleType

import kubeledger.model.bodies.allocation
import kubeledger.model.bodies.cgroups
import kubeledger.model.bodies.cpumanager
import kubeledger.model.bodies.devicemanager
import kubeledger.model.bodies.dra
import kubeledger.model.bodies.eviction
import kubeledger.model.bodies.imagepull
import kubeledger.model.bodies.images
import kubeledger.model.bodies.ledger
import kubeledger.model.bodies.lifecycle
import kubeledger.model.bodies.memorymanager
import kubeledger.model.bodies.node
import kubeledger.model.bodies.oom
import kubeledger.model.bodies.podresources
import kubeledger.model.bodies.preemption
import kubeledger.model.bodies.prober
import kubeledger.model.bodies.stages
import kubeledger.model.bodies.topologymanager
from kubeledger.model.record import Body

_MODULES: tuple[ModuleType, ...] = (
    kubeledger.model.bodies.allocation,
    kubeledger.model.bodies.cgroups,
    kubeledger.model.bodies.cpumanager,
    kubeledger.model.bodies.devicemanager,
    kubeledger.model.bodies.dra,
    kubeledger.model.bodies.eviction,
    kubeledger.model.bodies.imagepull,
    kubeledger.model.bodies.images,
    kubeledger.model.bodies.ledger,
    kubeledger.model.bodies.lifecycle,
    kubeledger.model.bodies.memorymanager,
    kubeledger.model.bodies.node,
    kubeledger.model.bodies.oom,
    kubeledger.model.bodies.podresources,
    kubeledger.model.bodies.preemption,
    kubeledger.model.bodies.prober,
    kubeledger.model.bodies.stages,
    kubeledger.model.bodies.topologymanager,
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
