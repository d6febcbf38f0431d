"""Whether the end of a collection tells rightly that the one before it failed, too."""

from __future__ import annotations

from kubeledger.images.loop import GC_PERIOD_S
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S, format_ts

__all__ = ["wrong_words"]

_SLACK_NS = 2 * NS_PER_S
_ONCE, _AGAIN = "Image garbage collection failed once", "failed multiple times in a row"
_SUCCEEDED = "Image garbage collection succeeded"


def wrong_words(end: Record, previous: Record | None, process_ns: int | None) -> str:
    """Why the words of a failure cannot be; empty when they can.

    Only neighbours count: between two ends that are nearer than two periods there was no other
    collection, and none before the first period of a process is over.

    Args:
        end: of the collection.
        previous: end of the one before it in the same process.
        process_ns: start of the process; None when that is not known.

    Source: v1.20.2 pkg/kubelet/kubelet.go StartGarbageCollection; v1.36.2 the same
    """
    again = _failed_again(end)
    if again is None:
        return ""
    period_ns = GC_PERIOD_S * NS_PER_S
    if previous is None:
        if again and process_ns is not None and end.ts_ns - process_ns < period_ns - _SLACK_NS:
            return (
                "it tells that collections failed multiple times in a row, but it is the first of "
                f"the process that began at {format_ts(process_ns)}"
            )
        return ""
    if not 0 <= end.ts_ns - previous.ts_ns < 2 * period_ns - _SLACK_NS:
        return ""
    if again and _tells(previous, _SUCCEEDED):
        return (
            "it tells that collections failed multiple times in a row, but the one before, at "
            f"{format_ts(previous.ts_ns)}, succeeded"
        )
    if not again and _failed_again(previous) is not None:
        return (
            "it tells that a collection failed once, but the one before, at "
            f"{format_ts(previous.ts_ns)}, failed as well"
        )
    return ""


def _failed_again(end: Record) -> bool | None:
    """Whether its line tells of a failure before; None when it tells of none, or of both."""
    once, again = _tells(end, _ONCE), _tells(end, _AGAIN)
    return None if once == again else again


def _tells(record: Record, words: str) -> bool:
    return any(words in (piece.text or "") for piece in record.evidence)
