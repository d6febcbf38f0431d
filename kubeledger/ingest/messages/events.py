"""Messages of the API events that the kubelet sends."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import Regex, ignore, ignore_text, klog, text

_OF_KIND = r'Event\(v1\.ObjectReference\{Kind:"(?P<kind>\w*)", '
_SAYING = (
    r'UID:"(?P<podUID>[^"]*)"(?:.*?FieldPath:"(?P<fieldPath>[^"]*)")?.*?\}\): '
    r"type: '(?P<type>[^']*)' reason: '(?P<reason>[^']*)' (?P<message>.*)"
)

MESSAGES = (
    klog("Event occurred", since="1.20"),
    klog("Server rejected event (will not retry!)"),
    klog("Unable to write event (broadcaster is shut down)"),
    klog("Unable to write event (may retry after sleeping)"),
    klog("Unable to write event (retry limit exceeded!)"),
    text(
        "event.go",
        Regex(rf'{_OF_KIND}Namespace:"", Name:"(?P<object>[^"]*)", {_SAYING}'),
        to="Event occurred",
        until="1.19",
    ),
    text(
        "event.go",
        Regex(
            rf'{_OF_KIND}Namespace:"(?P<namespace>[^"]*)", Name:"(?P<name>[^"]*)", {_SAYING}',
        ),
        to="Event occurred",
        until="1.19",
        object="{namespace}/{name}",
    ),
    text(
        "event.go",
        Regex(r"(?:Server rejected event|Unable to write event:?) '&v1\.Event\{"),
        to="Server rejected event (will not retry!)",
        until="1.28",
    ),
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
