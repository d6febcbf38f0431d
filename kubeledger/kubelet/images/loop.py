"""The loop that collects images every five minutes: when it runs, what its failures leave.

One failure is expected, as the first pass often comes before the first disk stats: it is only
logged. An event is sent when a pass fails right after another that failed.
"""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.images.policy import effective_max_age_ns
from kubeledger.kubelet.kube.gotexts import sprintf_without_arguments
from kubeledger.kubelet.profile.images import ImageFacts

GC_PERIOD_S = 300
DETECT_PERIOD_S = 300


class LoopReport(msgspec.Struct, frozen=True):
    """What the loop says after a pass.

    Attributes:
        message: of the log line.
        verbosity: None for an error, else the level from which the line is logged.
        event: ``<type> <reason> <message>``; empty for none.
    """

    message: str
    verbosity: int | None
    event: str = ""


class GCLoop(msgspec.Struct):
    """The loop's only memory: whether the previous pass failed."""

    previous_failed: bool = False

    def after_pass(self, error: str, facts: ImageFacts) -> LoopReport:
        """What is logged and sent after a pass that ended with ``error`` (empty: none).

        Source: v1.20.2 pkg/kubelet/kubelet.go:1266 StartGarbageCollection
        Differs: nothing.
        """
        repeated, self.previous_failed = self.previous_failed, bool(error)
        if not error:
            return LoopReport("Image garbage collection succeeded", 1 if repeated else 4)
        if not repeated:
            return LoopReport(
                "Image garbage collection failed once. "
                "Stats initialization may not have completed yet",
                None,
            )
        text = sprintf_without_arguments(error) if facts.loop_event_is_a_format else error
        return LoopReport(
            "Image garbage collection failed multiple times in a row",
            None,
            f"Warning ImageGCFailed {text}",
        )


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
