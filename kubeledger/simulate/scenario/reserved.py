"""Whether a node has what its configuration reserves."""

from __future__ import annotations

from typing import Any

from kubeledger.kubelet.kube.quantity import QuantityError
from kubeledger.kubelet.kube.requests import nanos_of
from kubeledger.simulate.scenario.models import Scenario
from kubeledger.simulate.scenario.problems import Problems

__all__ = ["check_reserved"]

_FIELDS = ("kubeReserved", "systemReserved")


def check_reserved(scenario: Scenario, settings: dict[str, Any], problems: Problems) -> None:
    """Note where nothing, or less, is left for pods."""
    if problems.inside(("node", "cpus")) or problems.inside(("node", "memory")):
        return
    capacity = {"cpu": scenario.node.cpus * 10**9, "memory": scenario.node.memory * 10**9}
    at = "configFile" if scenario.config_file is not None else "config"
    for resource, nanos in capacity.items():
        reserved = sum(_nanos(settings.get(field), resource) for field in _FIELDS)
        if reserved >= nanos > 0:
            named = [field for field in _FIELDS if _nanos(settings.get(field), resource)]
            text = f"reserves all {resource} of the node and more: nothing is left for pods"
            problems.add((at, named[-1], resource), text, "reserve less, or make the node larger")


def _nanos(reserved: object, resource: str) -> int:
    amount = reserved.get(resource) if isinstance(reserved, dict) else None
    try:
        return nanos_of(amount)
    except QuantityError:
        return 0  # reported as a wrong setting
