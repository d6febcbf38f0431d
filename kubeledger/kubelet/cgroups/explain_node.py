"""Which capacity, reserve and threshold give what a node keeps from its pods."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.cgroups.node_config import (
    Quantities,
    ReservationSettings,
    hard_eviction_reservation,
    kubepods_resources,
    node_reservation,
    over_reserved,
    resource_config_for_node,
)
from kubeledger.kubelet.cgroups.reasons import Path, shares_reason
from kubeledger.kubelet.kube.quantity import ZERO
from kubeledger.kubelet.profile.cgroups import CgroupFacts

__all__ = ["NodeExplainer"]


class NodeExplainer(msgspec.Struct, frozen=True, kw_only=True):
    """Explains the values of one decision."""

    capacity: Quantities
    settings: ReservationSettings
    facts: CgroupFacts

    def explain(self, path: Path) -> str:
        """The rule behind the value at a path of the outcome, as users see it."""
        match path:
            case ("reservation", resource):
                return self._reservation(resource)
            case ("kubepods", "resources", resource):
                return self._kubepods(resource)
            case ("kubepods", "cpuShares"):
                return self._shares()
            case ("kubepods", "memoryLimit"):
                return self._kubepods("memory")
            case ("overReserved",):
                return self._over_reserved()
        return ""

    def _reservation(self, resource: str) -> str:
        if resource not in self.capacity:
            return "the node has no such resource"
        eviction = hard_eviction_reservation(self.settings.eviction_hard, self.capacity, self.facts)
        parts = {
            "systemReserved": self.settings.system_reserved.get(resource, ZERO),
            "kubeReserved": self.settings.kube_reserved.get(resource, ZERO),
            "hard eviction": eviction.get(resource, ZERO),
        }
        told = [f"{amount.canonical()} ({n})" for n, amount in parts.items() if not amount.is_zero]
        return f"it is {' + '.join(told)}" if told else "nothing of it is reserved"

    def _kubepods(self, resource: str) -> str:
        if resource not in self.capacity:
            return "the node has no such resource"
        system = self.settings.system_reserved.get(resource, ZERO)
        kube = self.settings.kube_reserved.get(resource, ZERO)
        text = f"it is the capacity, {self.capacity[resource].canonical()}"
        if not system.is_zero:
            text += f", less {system.canonical()} (systemReserved)"
        if not kube.is_zero:
            text += f", less {kube.canonical()} (kubeReserved)"
        if self.capacity[resource].sub(system).sub(kube).sign < 0:
            text += ", but not below 0"
        return text

    def _shares(self) -> str:
        resources = kubepods_resources(self.capacity, self.settings)
        if "cpu" not in resources:
            return "the node has no cpu"
        milli = resources["cpu"].milli_value()
        shares = resource_config_for_node(resources).cpu_shares or 0
        return f"all pods may use {milli} m of cpu, {shares_reason(milli, shares)}"

    def _over_reserved(self) -> str:
        reservation = node_reservation(self.capacity, self.settings, self.facts)
        over = over_reserved(self.capacity, reservation)
        if not over:
            return "of no resource more is reserved than there is"
        told = ", ".join(
            f"{reservation[n].canonical()} of {self.capacity[n].canonical()} {n}" for n in over
        )
        return f"reserved are {told}"
