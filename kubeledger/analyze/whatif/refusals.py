"""Settings that a kubelet refuses together, though each alone is good."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kubeledger.kubelet.cpumanager.policy_options import (
    PolicyOptionError,
    new_static_policy_options,
)
from kubeledger.kubelet.kube.configuration import problem
from kubeledger.kubelet.kube.maporder import FIRST_ORDER
from kubeledger.kubelet.kube.names import HUGE_PAGES
from kubeledger.kubelet.kube.quantity import ZERO, Quantity, QuantityError
from kubeledger.kubelet.kube.requests import ResourceList
from kubeledger.kubelet.memorymanager.machine import MEMORY, MemoryManagerError
from kubeledger.kubelet.memorymanager.reserved import MemoryReservation, get_system_reserved_memory
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.topologymanager.options import ConfigurationError, policy_options
from kubeledger.model.units import parse_go_duration
from kubeledger.verify.settings import UNKNOWN, profile_of

_ENFORCEABLE = frozenset(
    {"pods", "system-reserved", "kube-reserved", "none"}
    | {"system-reserved-compressible", "kube-reserved-compressible"}
)

Settings = Mapping[str, Any]


def _thresholds(settings: Settings) -> str:
    high = settings.get("imageGCHighThresholdPercent")
    low = settings.get("imageGCLowThresholdPercent")
    if not isinstance(high, int) or not isinstance(low, int) or low < high:
        return ""
    return f"imageGCLowThresholdPercent {low} must be less than imageGCHighThresholdPercent {high}"


def _ages(settings: Settings) -> str:
    most, least = settings.get("imageMaximumGCAge"), settings.get("imageMinimumGCAge")
    try:
        if not 0 < parse_go_duration(most or "0") <= parse_go_duration(least or "0"):
            return ""
    except (TypeError, AttributeError, ValueError):  # a recorded value that is odd
        return ""
    return f"imageMaximumGCAge {most} must be greater than imageMinimumGCAge {least}"


def _soft(settings: Settings) -> str:
    soft, grace = settings.get("evictionSoft"), settings.get("evictionSoftGracePeriod")
    if not isinstance(soft, Mapping) or not isinstance(grace, Mapping | None):
        return ""
    for signal in sorted(soft.keys() - (grace or {}).keys()):
        if soft[signal] not in {"0%", "100%"}:  # means that there is none
            return f"evictionSoft {signal} needs a grace period in evictionSoftGracePeriod"
    return ""


def _enforced(settings: Settings) -> str:
    keys = settings.get("enforceNodeAllocatable")
    if not isinstance(keys, list):
        return ""
    for key in keys:
        if key not in _ENFORCEABLE:
            return f"enforceNodeAllocatable {key!r} is not one of {', '.join(sorted(_ENFORCEABLE))}"
        parent = {"system": "systemReservedCgroup", "kube": "kubeReservedCgroup"}.get(
            key.partition("-")[0]
        )
        if parent and settings.get(parent) == "":
            return f"enforceNodeAllocatable {key!r} needs {parent}"
    if "none" in keys and len(keys) > 1:
        return "enforceNodeAllocatable 'none' cannot be combined with others"
    if settings.get("cgroupsPerQOS") is False and keys not in ([], ["none"]):
        return "enforceNodeAllocatable needs cgroupsPerQOS"
    return ""


def _reserved_cpus(settings: Settings) -> str:
    if not settings.get("reservedSystemCPUs"):
        return ""
    for name in ("systemReservedCgroup", "kubeReservedCgroup"):
        if settings.get(name):
            return f"reservedSystemCPUs and {name} exclude each other"
    return ""


def _reserved_memory(settings: Settings) -> str:
    """By type, ``reservedMemory`` keeps of all NUMA nodes together what the node keeps."""
    kept = settings.get("reservedMemory")
    reserves = [settings.get(name) or {} for name in ("systemReserved", "kubeReserved")]
    hard = settings.get("evictionHard")
    if settings.get("memoryManagerPolicy") != "Static" or not isinstance(hard, Mapping):
        return ""
    threshold = str(hard.get("memory.available", "0"))
    if threshold.endswith("%"):
        return ""  # of a capacity that no setting tells
    try:
        entries = [MemoryReservation(each["numaNode"], each["limits"]) for each in kept or ()]
        amounts = {MEMORY: Quantity.from_api(threshold)}
        for name, amount in (item for reserve in reserves for item in reserve.items()):
            if name == MEMORY or name.startswith(HUGE_PAGES):
                amounts[name] = Quantity.from_api(amount).add(amounts.get(name, ZERO))
        reservation: ResourceList = {name: str(amount) for name, amount in amounts.items()}
        get_system_reserved_memory({each.numa_node for each in entries}, reservation, entries)
    except MemoryManagerError as error:
        return f"reservedMemory: {error}"
    except (QuantityError, KeyError, TypeError, AttributeError):  # a value that is odd
        return ""
    return ""


def _topology_options(settings: Settings, profile: KubeletProfile) -> str:
    options = settings.get("topologyManagerPolicyOptions")
    no_policy = settings.get("topologyManagerPolicy") == "none"
    if not isinstance(options, Mapping) or (no_policy and profile.topology.none_needs_nothing):
        return ""
    try:
        policy_options({str(n): str(value) for n, value in options.items()}, profile.topology)
    except ConfigurationError as error:
        return f"topologyManagerPolicyOptions: {error}"
    return ""


def _cpu_options(settings: Settings, profile: KubeletProfile) -> str:
    options, facts = settings.get("cpuManagerPolicyOptions"), profile.resourcemanagers
    static = settings.get("cpuManagerPolicy") == "static" and facts.cpu_policy_options
    if not static or not isinstance(options, Mapping):
        return ""
    try:
        texts = {str(name): str(value) for name, value in options.items()}
        new_static_policy_options(texts, facts, FIRST_ORDER)
    except PolicyOptionError as error:
        return f"cpuManagerPolicyOptions: {error}"
    return ""


_RULES: tuple[tuple[frozenset[str], Callable[[Settings], str]], ...] = (
    (frozenset({"imageGCHighThresholdPercent", "imageGCLowThresholdPercent"}), _thresholds),
    (frozenset({"imageMaximumGCAge", "imageMinimumGCAge"}), _ages),
    (frozenset({"evictionSoft", "evictionSoftGracePeriod"}), _soft),
    (
        frozenset({"enforceNodeAllocatable", "cgroupsPerQOS", "kubeReservedCgroup"})
        | {"systemReservedCgroup"},
        _enforced,
    ),
    (
        frozenset({"reservedSystemCPUs", "kubeReservedCgroup", "systemReservedCgroup"}),
        _reserved_cpus,
    ),
    (
        frozenset({"evictionHard", "kubeReserved", "systemReserved"})
        | {"memoryManagerPolicy", "reservedMemory"},
        _reserved_memory,
    ),
)
"""Fields, and a rule that concerns them."""

_BY_VERSION: tuple[tuple[frozenset[str], Callable[[Settings, KubeletProfile], str]], ...] = (
    (
        frozenset({"featureGates", "topologyManagerPolicy", "topologyManagerPolicyOptions"}),
        _topology_options,
    ),
    (frozenset({"cpuManagerPolicy", "cpuManagerPolicyOptions", "featureGates"}), _cpu_options),
)
"""The same of rules that differ by version and its feature gates."""


def refusal(changed: Settings, recorded: Settings, version: str | None = None) -> str:
    """Why no kubelet starts with these settings, as a sentence; empty when one does.

    Args:
        version: of the kubelet; None where it is not known.
        changed: settings of a variant.
        recorded: those of the node, which hold where nothing is changed. They are not judged:
            a kubelet ran with them.
    """
    for field, value in changed.items():
        if value is not UNKNOWN and (reason := problem(field, value)):
            return f"{field} {reason}, not {_shown(value)}"
    both = {**recorded, **changed}
    effective = {name: value for name, value in both.items() if value is not UNKNOWN}
    for fields, rule in _RULES:
        if fields & changed.keys() and (reason := rule(effective)):
            return reason
    profile = profile_of(version, effective.get("featureGates"))
    for fields, by_version in _BY_VERSION:
        if profile and fields & changed.keys() and (reason := by_version(effective, profile)):
            return reason
    return ""


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode()
