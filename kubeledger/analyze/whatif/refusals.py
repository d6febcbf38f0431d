"""Settings that a kubelet refuses together, though each alone is good."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kubeledger.kubelet.kube.configuration import problem
from kubeledger.model.units import parse_go_duration
from kubeledger.verify.settings import UNKNOWN

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
)
"""Fields, and a rule that concerns them."""


def refusal(changed: Settings, recorded: Settings) -> str:
    """Why no kubelet starts with these settings, as a sentence; empty when one does.

    Args:
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
    return ""


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode()
