"""The eviction manager's settings, as verification knows them."""

from __future__ import annotations

from kubeledger.kubelet.eviction.signals import DiskLayout
from kubeledger.kubelet.eviction.thresholds import (
    Threshold,
    ThresholdConfigError,
    ThresholdSettings,
    parse_threshold_config,
    with_container_fs,
)
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.units import parse_go_duration
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
    missing: list[str] = []

    def table(name: str) -> dict[str, str]:
        value = settings.get(name)
        if value is None and name != "evictionHard":
            return {}
        if not isinstance(value, dict):
            missing.append(f"the setting {name}")
            return {}
        return {str(signal): str(text) for signal, text in value.items()}

    soft, levels = table("evictionSoft"), settings.get("enforceNodeAllocatable")
    texts = ThresholdSettings(
        eviction_hard=table("evictionHard"),
        eviction_soft=soft,
        eviction_soft_grace_period=table("evictionSoftGracePeriod") if soft else {},
        eviction_minimum_reclaim=table("evictionMinimumReclaim"),
        enforce_node_allocatable=tuple(levels) if isinstance(levels, list) else ("pods",),
    )
    if missing:
        return (), tuple(missing)
    try:
        thresholds = parse_threshold_config(texts, profile)
    except ThresholdConfigError as error:
        return (), (f"readable thresholds ({error})",)
    if profile.eviction.split_disk_known and layout is not None:
        _, thresholds = with_container_fs(thresholds, layout)
    return thresholds, ()


def transition_period_ns(settings: Settings) -> int | None:
    """``evictionPressureTransitionPeriod``; None when no source shows it."""
    value = settings.get("evictionPressureTransitionPeriod")
    try:
        return None if value is UNKNOWN else parse_go_duration(str(value or _DEFAULT_TRANSITION))
    except ValueError:
        return None
