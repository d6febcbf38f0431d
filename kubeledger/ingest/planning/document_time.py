"""When a document was written, by what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubeledger.ingest.sources.documents import event_times, first_time
from kubeledger.ingest.sources.items import (
    ApiEvent,
    CollectedAt,
    Item,
    KernelReports,
    NodeObject,
    PodList,
    RuntimeObjects,
    StatsSummary,
)

__all__ = ["document_time"]

_PAST = frozenset(
    (
        *("creationTimestamp", "startTime", "startedAt", "finishedAt", "lastProbeTime"),
        *("lastTransitionTime", "lastHeartbeatTime", "time"),
    )
)
"""Fields that say that something had happened when the document was written."""


def document_time(items: Sequence[Item]) -> int | None:
    """The latest time at which what a document shows had happened: it was written then or later.

    Only fields that report the past count: an annotation may hold any time.
    """
    times: list[int] = []
    for item in items:
        match item:
            case PodList():
                for pod in item.pods:
                    _past(pod.get("metadata"), times)
                    _past(pod.get("status"), times)
            case NodeObject():
                _past(item.node.get("metadata"), times)
                _past(item.node.get("status"), times)
            case StatsSummary():
                _past(item.data, times)
            case ApiEvent():
                if event_times(item.event) is not None:
                    times.append(item.ts_ns)
            case KernelReports():
                stamps = [report.stamp for report in item.reports]
                times += [stamp.value_ns for stamp in stamps if stamp.form == "utc"]
            case RuntimeObjects():
                times += [each.created_ns for each in item.containers if each.created_ns]
            case CollectedAt():
                times.append(item.collected_ns)
            case _:
                pass
    return max(times, default=None)


def _past(value: Any, times: list[int]) -> None:  # noqa: ANN401 - any JSON value
    if isinstance(value, list):
        for member in value:
            _past(member, times)
    elif isinstance(value, dict):
        for key, member in value.items():
            if key in _PAST:
                ts_ns = first_time(member)
                times += [ts_ns] if ts_ns is not None else []
            elif key not in ("labels", "annotations"):
                _past(member, times)
