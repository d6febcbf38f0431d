"""Messages of the API events that the kubelet sends."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import ignore, ignore_text

__all__ = ["MESSAGES"]

MESSAGES = (
    *ignore(
        "Could not construct reference, will not report event",
        "Unable start event watcher (will not retry!)",
        "Unable to construct event (will not retry!)",
        "Unable to record event (will not retry!)",
        "Unable to record event: too many queued events, dropped event",
        "Unsupported event type",
    ),
    *ignore_text(
        "event.go",
        "Unable to (?:write|construct) event",
        "Server rejected event",
        "Could not construct reference",
        "Unsupported event type",
    ),
)
