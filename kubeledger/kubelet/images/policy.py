"""The image GC policy, how a kubelet comes by it, and whether its loop runs."""

from __future__ import annotations

from typing import Final

import msgspec

from kubeledger.kubelet.profile.images import ImageFacts

GC_PERIOD_S: Final = 300
DETECT_PERIOD_S: Final = 300


class ImageGCPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When images are removed, and which (pkg/kubelet/images ImageGCPolicy).

    Attributes:
        high_threshold_percent: a disk used by so much, or more, triggers a space pass.
        low_threshold_percent: down to which the space pass frees.
        min_age_ns: images detected more recently are left alone by the space pass.
        max_age_ns: images unused for longer go in the age pass; 0: no age pass.
    """

    high_threshold_percent: int
    low_threshold_percent: int
    min_age_ns: int
    max_age_ns: int = 0


def policy_error(policy: ImageGCPolicy) -> str:
    """Why the manager refuses the policy; empty when it takes it.

    Equal thresholds pass here; the validation of the kubelet's configuration, which
    comes before, refuses those.

    Source: v1.20.2 pkg/kubelet/images/image_gc_manager.go:152 NewImageGCManager
    Differs: nothing.
    """
    high, low = policy.high_threshold_percent, policy.low_threshold_percent
    if not 0 <= high <= 100:
        return f"invalid HighThresholdPercent {high}, must be in range [0-100]"
    if not 0 <= low <= 100:
        return f"invalid LowThresholdPercent {low}, must be in range [0-100]"
    if low > high:
        return f"LowThresholdPercent {low} can not be higher than HighThresholdPercent {high}"
    return ""


def effective_max_age_ns(configured_ns: int, facts: ImageFacts) -> int:
    """The maximum age that a kubelet's manager is given for ``imageMaximumGCAge``.

    Source: v1.30.1 pkg/kubelet/kubelet.go:433 NewMainKubelet
    Differs: the note that the setting is ignored is not logged.
    """
    return configured_ns if facts.maximum_age_gate_on else 0


def loop_disabled(
    high_threshold_percent: int, configured_max_age_ns: int, facts: ImageFacts
) -> str:
    """What the kubelet logs when it does not start the loop; empty when it does.

    The detect loop runs in any case, and the eviction manager removes images
    whatever the thresholds are.

    Source: v1.20.2 pkg/kubelet/kubelet.go:1261; v1.30.1 :1451 StartGarbageCollection
    Differs: nothing.
    """
    if high_threshold_percent != 100:
        return ""
    if not facts.loop_runs_for_maximum_age:
        return "ImageGCHighThresholdPercent is set 100, Disable image GC"
    if effective_max_age_ns(configured_max_age_ns, facts):
        return ""
    return "ImageGCHighThresholdPercent is set 100 and ImageMaximumGCAge is 0, Disable image GC"
