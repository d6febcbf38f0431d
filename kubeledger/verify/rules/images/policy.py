"""The image GC policy that the kubelet's settings give."""

from __future__ import annotations

from typing import Final

import msgspec

from kubeledger.kubelet.images.loop import loop_disabled
from kubeledger.kubelet.images.policy import ImageGCPolicy, effective_max_age_ns
from kubeledger.kubelet.profile.images import ImageFacts
from kubeledger.model.units import parse_go_duration
from kubeledger.verify.settings import UNKNOWN, Settings

__all__ = ["HIGH", "LOW", "POLICY_SETTINGS", "Policy", "read_policy"]

HIGH: Final = "imageGCHighThresholdPercent"
LOW: Final = "imageGCLowThresholdPercent"
_MIN_AGE: Final = "imageMinimumGCAge"
_MAX_AGE: Final = "imageMaximumGCAge"

POLICY_SETTINGS: Final = frozenset({HIGH, LOW, _MIN_AGE, _MAX_AGE})


class Policy(msgspec.Struct, frozen=True):
    """The policy, as far as the settings tell it.

    Attributes:
        high, low: whole percent; None when not known.
        min_age_ns, max_age_ns: None when not known; the maximum age is 0 for a version
            without one.
        missing: (n,) what is not known, of thresholds first.
        disabled: why the loop does not run; empty when it does.
    """

    high: int | None
    low: int | None
    min_age_ns: int | None
    max_age_ns: int | None
    missing: tuple[str, ...]
    disabled: str

    @property
    def missing_thresholds(self) -> tuple[str, ...]:
        """Of ``missing`` what a start rests on."""
        return tuple(each for each in self.missing if "Threshold" in each)

    def whole(self, **known: int) -> ImageGCPolicy | None:
        """The policy, with other values for those ``known``; None when any is not known."""
        values = {
            "high_threshold_percent": self.high,
            "low_threshold_percent": self.low,
            "min_age_ns": self.min_age_ns,
            "max_age_ns": self.max_age_ns,
            **known,
        }
        told = {name: value for name, value in values.items() if value is not None}
        return ImageGCPolicy(**told) if len(told) == len(values) else None


def read_policy(settings: Settings, facts: ImageFacts) -> Policy:
    """The policy of the settings as they are now."""
    missing: list[str] = []

    def read(name: str) -> int | None:
        value = settings.get(name)
        parsed = None if value is UNKNOWN else _number(name, value)
        if parsed is None:
            missing.append(f"the setting {name}")
        return parsed

    high, low, min_age_ns = read(HIGH), read(LOW), read(_MIN_AGE)
    # What no kubelet of this version looks at is not missing.
    configured = read(_MAX_AGE) if facts.maximum_age_gate_on else 0
    max_age_ns = None if configured is None else effective_max_age_ns(configured, facts)
    disabled = ""
    if high is not None and configured is not None:
        disabled = loop_disabled(high, configured, facts)
    return Policy(high, low, min_age_ns, max_age_ns, tuple(missing), disabled)


def _number(name: str, value: object) -> int | None:
    """Percent, or nanoseconds."""
    if name in (HIGH, LOW):
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    try:
        return parse_go_duration(value) if isinstance(value, str) else None
    except ValueError:
        return None
