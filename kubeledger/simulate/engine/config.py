"""Reading effective settings: KubeletConfiguration fields as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubeledger.model.units import parse_go_duration

Settings = Mapping[str, Any]


def duration_ns(settings: Settings, name: str, default: str = "0s") -> int:
    """A duration in nanoseconds; the default where it is not set."""
    value = settings.get(name)
    return parse_go_duration(default if value is None else str(value))


def integer(settings: Settings, name: str, default: int) -> int:
    """A number."""
    value = settings.get(name)
    return default if value is None else int(value)


def table(settings: Settings, name: str) -> dict[str, str]:
    """Names and texts; empty where it is not set."""
    return {str(key): str(value) for key, value in (settings.get(name) or {}).items()}


def gate(settings: Settings, name: str, *, default: bool = False) -> bool:
    """Whether a feature gate is on; by default that of an alpha feature."""
    gates = settings.get("featureGates") or {}
    return bool(gates.get(name, gates.get("AllAlpha", False) or default))
