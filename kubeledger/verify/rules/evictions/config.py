"""The eviction manager's settings, as verification knows them."""

from __future__ import annotations

from typing import Any

from kubeledger.eviction.signals import DiskLayout
from kubeledger.eviction.thresholds import (
    Threshold,
    ThresholdConfigError,
    ThresholdSettings,
    parse_threshold_config,
    with_container_fs,
)
from kubeledger.profile.resolve import KubeletProfile
from kubeledger.units import parse_go_duration
from kubeledger.verify.settings import UNKNOWN, Settings

__all__ = ["Config", "configured", "transition_period_ns"]

Config = tuple[tuple[Threshold, ...], tuple[str, ...]]
"""The thresholds, and the settings that are missing for them."""

_DEFAULT_TRANSITION = "5m0s"


def configured(
    settings: Settings, profile: KubeletProfile | None, layout: DiskLayout | None
) -> Config:
    """The thresholds of a kubelet, with those that it makes of others."""
    if profile is None:
        return (), ("the kubelet's version",)
    found: dict[str, dict[str, str]] = {}
    missing: list[str] = []
    for name in (
        "evictionHard",
        "evictionSoft",
        "evictionSoftGracePeriod",
        "evictionMinimumReclaim",
    ):
        value = settings.get(name)
        if name == "evictionSoftGracePeriod" and not found.get("evictionSoft"):
            value = {}
        if value is None and name != "evictionHard":
            value = {}
        if value is UNKNOWN or not isinstance(value, dict):
            missing.append(f"the setting {name}")
            continue
        found[name] = {str(signal): str(text) for signal, text in value.items()}
    if missing:
        return (), tuple(missing)
    levels = settings.get("enforceNodeAllocatable")
    texts = ThresholdSettings(
        eviction_hard=found["evictionHard"],
        eviction_soft=found["evictionSoft"],
        eviction_soft_grace_period=found["evictionSoftGracePeriod"],
        eviction_minimum_reclaim=found["evictionMinimumReclaim"],
        enforce_node_allocatable=tuple(levels) if isinstance(levels, list) else ("pods",),
    )
    try:
        thresholds = parse_threshold_config(texts, profile)
    except ThresholdConfigError as error:
        return (), (f"readable thresholds ({error})",)
    if profile.eviction.split_disk_known and layout is not None:
        _, thresholds = with_container_fs(thresholds, layout)
    return thresholds, ()


def transition_period_ns(settings: Settings) -> int | None:
    """``evictionPressureTransitionPeriod``; None when no source tells it."""
    value: Any = settings.get("evictionPressureTransitionPeriod")
    if value is UNKNOWN:
        return None
    try:
        return parse_go_duration(str(value or _DEFAULT_TRANSITION))
    except ValueError:
        return None
