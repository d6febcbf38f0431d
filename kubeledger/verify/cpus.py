"""The number of CPUs by the shares of the cgroup of all pods, and the settings that reserve some.

The kubelet writes there what the reserves leave, and only one whole number of CPUs gives it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kubeledger.cgroups.conversions import shares_of_milli_cpu
from kubeledger.cgroups.records import CgroupUpdated
from kubeledger.kube.quantity import Quantity, QuantityError
from kubeledger.machine import Record
from kubeledger.node.records import NodeObserved, Setting, SettingsObserved
from kubeledger.units import NS_PER_S

__all__ = ["CPUs", "WrongCPUs", "cpus_by_shares"]

_CPUS_MAX: Final = 1024
_WRITTEN_NS: Final = 30 * NS_PER_S
"""So long after its start a kubelet has written the cgroup of all pods."""


class WrongCPUs(NamedTuple):
    """A line about the machine, and a value of the cgroup of all pods that denies it."""

    machine: Record
    told: int
    cgroup: Record
    shares: int
    cpus: int


class CPUs:
    """The lines about the machine against the shares that the same kubelet process wrote."""

    def __init__(self) -> None:
        self._machines: list[tuple[Record, int]] = []
        self._shares: list[tuple[Record, int]] = []
        self._settings: list[tuple[int, SettingsObserved]] = []

    def note(self, record: Record) -> None:
        """First reading: a record of the machine, the settings, or the cgroup of all pods."""
        body = record.body
        if isinstance(body, NodeObserved) and body.cpus is not None:
            self._machines.append((record, body.cpus))
        elif isinstance(body, SettingsObserved):
            self._settings.append((record.ts_ns, body))
        elif isinstance(body, CgroupUpdated) and body.cpu_shares and body.level == "node":
            self._shares.append((record, body.cpu_shares))

    def wrong(self, starts: Sequence[int]) -> Iterator[WrongCPUs]:
        """Lines about the machine that cannot be right; ``starts`` are those of kubelets."""
        self._settings.sort(key=lambda settings: settings[0])
        for machine, told in self._machines:
            to_ns = min((ns for ns in starts if ns > machine.ts_ns), default=None)
            found = [
                (cgroup, shares, self._fitting(cgroup.ts_ns, shares))
                for cgroup, shares in self._shares
                if cgroup.ts_ns >= machine.ts_ns + _WRITTEN_NS
                and (to_ns is None or cgroup.ts_ns < to_ns)
            ]
            if {cpus for *_, cpus in found} & {None, told} or not found:
                continue
            cgroup, shares, cpus = found[0]
            if cpus is not None and all(each == cpus for *_, each in found):
                yield WrongCPUs(machine, told, cgroup, shares, cpus)

    def _fitting(self, ts_ns: int, shares: int) -> int | None:
        by_then = [settings for told_ns, settings in self._settings if told_ns <= ts_ns]
        if not by_then or by_then[-1].conflicts:
            return None
        return cpus_by_shares(shares, by_then[-1].settings)


def cpus_by_shares(shares: int, settings: Mapping[str, Setting]) -> int | None:
    """Whole CPUs; None where a setting is not known, or no number or several give the shares.

    Args:
        shares: ``cpu.shares`` of the cgroup of all pods.
        settings: the recorded ones, which gave the cgroup its value.
    """
    reserved = _reserved_milli(settings)
    return None if reserved is None else _fitting(shares, reserved)


def _fitting(shares: int, reserved_milli: int) -> int | None:
    fitting = [
        cpus
        for cpus in range(1, _CPUS_MAX + 1)
        if cpus * 1000 > reserved_milli
        and shares_of_milli_cpu(cpus * 1000 - reserved_milli) == shares
    ]
    return fitting[0] if len(fitting) == 1 else None


def _reserved_milli(settings: Mapping[str, Setting]) -> int | None:
    """What both reserves take off the cgroup; None when a setting is not known."""
    if _value(settings, "reservedSystemCPUs") or "enforceNodeAllocatable" not in settings:
        return None
    total = 0
    for name in ("systemReserved", "kubeReserved"):
        if name not in settings:
            return None
        table = _value(settings, name) or {}
        try:
            amount = table.get("cpu") if isinstance(table, dict) else None
            total += Quantity.from_api(amount).milli_value() if amount is not None else 0
        except QuantityError:
            return None
    return total if "pods" in (_value(settings, "enforceNodeAllocatable") or ()) else 0


def _value(settings: Mapping[str, Setting], name: str) -> Any:  # noqa: ANN401 # any JSON value
    return settings[name].decoded() if name in settings else None
