"""The image GC policy that the kubelet's settings give."""

from __future__ import annotations

from typing import Final

import msgspec

from kubeledger.kubelet.images.loop import loop_disabled
from kubeledger.kubelet.images.policy import effective_max_age_ns
from kubeledger.kubelet.profile.images import ImageFacts
from kubeledger.model.units import parse_go_duration
from kubeledger.verify.settings import Settings

__all__ = ["POLICY_SETTINGS", "Policy", "read_policy"]

_HIGH: Final = "imageGCHighThresholdPercent"
_LOW: Final = "imageGCLowThresholdPercent"
_MIN_AGE: Final = "imageMinimumGCAge"
_MAX_AGE: Final = "imageMaximumGCAge"

POLICY_SETTINGS: Final = frozenset({_HIGH, _LOW, _MIN_AGE, _MAX_AGE})


class Policy(msgspec.Struct, frozen=True):
    """The policy; None stands for what no setting says.

    Attributes:
        high, low: whole percent.
        min_age_ns, max_age_ns: the maximum age is 0 for a version without one.
        disabled: why the loop does not run; empty when it does.
    """

    high: int | None
    low: int | None
    min_age_ns: int | None
    max_age_ns: int | None
    disabled: str

    @property
    def missing_thresholds(self) -> list[str]:
        """What a start rests on, and no setting shows."""
        values = {_HIGH: self.high, _LOW: self.low}
        return [f"the setting {name}" for name, value in values.items() if value is None]

    @property
    def missing_ages(self) -> list[str]:
        """What a removal rests on, and no setting shows."""
        values = {_MIN_AGE: self.min_age_ns, _MAX_AGE: self.max_age_ns}
        return [f"the setting {name}" for name, value in values.items() if value is None]


def read_policy(settings: Settings, facts: ImageFacts) -> Policy:
    """The policy of the settings as they are now."""
    high, low = _percent(settings, _HIGH), _percent(settings, _LOW)
    # What no kubelet of this version looks at is not missing.
    configured = _duration_ns(settings, _MAX_AGE) if facts.maximum_age_gate_on else 0
    max_age_ns = None if configured is None else effective_max_age_ns(configured, facts)
    disabled = ""
    if high is not None and configured is not None:
        disabled = loop_disabled(high, configured, facts)
    return Policy(high, low, _duration_ns(settings, _MIN_AGE), max_age_ns, disabled)


def _percent(settings: Settings, name: str) -> int | None:
    value = settings.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _duration_ns(settings: Settings, name: str) -> int | None:
    value = settings.get(name)
    try:
        return parse_go_duration(value) if isinstance(value, str) else None
    except ValueError:
        return None
