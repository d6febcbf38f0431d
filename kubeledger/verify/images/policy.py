"""The image GC policy that the kubelet's settings give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from kubeledger.images.loop import loop_disabled
from kubeledger.images.policy import ImageGCPolicy, effective_max_age_ns
from kubeledger.profile.images import ImageFacts
from kubeledger.units import parse_go_duration
from kubeledger.verify.settings import UNKNOWN, Settings

__all__ = ["HIGH", "LOW", "POLICY_SETTINGS", "Policy", "read_policy"]

HIGH = "imageGCHighThresholdPercent"
LOW = "imageGCLowThresholdPercent"
_MIN_AGE = "imageMinimumGCAge"
_MAX_AGE = "imageMaximumGCAge"

POLICY_SETTINGS = frozenset({HIGH, LOW, _MIN_AGE, _MAX_AGE})

T = TypeVar("T")


class Policy(msgspec.Struct, frozen=True):
    """The policy, as far as the settings tell it.

    Attributes:
        high, low: whole percent; None when not known.
        min_age_ns, max_age_ns: None when not known; the maximum age is 0 for a version
            without one.
        missing: (n,) what is not known.
        disabled: why the loop does not run; empty when it does.
    """

    high: int | None
    low: int | None
    min_age_ns: int | None
    max_age_ns: int | None
    missing: tuple[str, ...]
    disabled: str

    @property
    def whole(self) -> ImageGCPolicy | None:
        """The policy; None when anything of it is not known."""
        if self.high is None or self.low is None:
            return None
        if self.min_age_ns is None or self.max_age_ns is None:
            return None
        return ImageGCPolicy(
            high_threshold_percent=self.high,
            low_threshold_percent=self.low,
            min_age_ns=self.min_age_ns,
            max_age_ns=self.max_age_ns,
        )


def read_policy(settings: Settings, facts: ImageFacts) -> Policy:
    """The policy of the settings as they are now."""
    missing: list[str] = []

    def read(name: str, parse: Callable[[Any], T | None]) -> T | None:
        value = settings.get(name)
        parsed = None if value is UNKNOWN else parse(value)
        if parsed is None:
            readable = "a readable value of " if value is not UNKNOWN else ""
            missing.append(f"{readable}the setting {name}")
        return parsed

    high, low, min_age_ns = read(HIGH, _percent), read(LOW, _percent), read(_MIN_AGE, _duration)
    # What no kubelet of this version looks at is not missing.
    configured = read(_MAX_AGE, _duration) if facts.maximum_age_gate_on else 0
    max_age_ns = None if configured is None else effective_max_age_ns(configured, facts)
    disabled = ""
    if high is not None and configured is not None:
        disabled = loop_disabled(high, configured, facts)
    return Policy(high, low, min_age_ns, max_age_ns, tuple(missing), disabled)


def _percent(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _duration(value: object) -> int | None:
    if not isinstance(value, str):
        return None
    try:
        return parse_go_duration(value)
    except ValueError:
        return None
