"""Events that the kubelet could not send, read from the lines that say so.

At verbosity 3 and above each event passes the log as it is recorded (``Event occurred``). Below,
an event that the API server refuses or that does not get there is written out in full by client-go
(``tools/record/event.go``), which is then the only trace of it:

* text, up to 1.28: ``Server rejected event '&v1.Event{...}': 'forbidden' (will not retry!)``,
  with the event in Go's ``%#v``;
* structured: ``"Server rejected event (will not retry!)" event="&Event{...}"``, in the form of
  gogo's ``String()``, whose texts are not quoted.

Such a line becomes the one that a more verbose log would have.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from kubeledger.ingest.klog.cut_lines import CutLineError
from kubeledger.ingest.klog.stamps import stamp_ns
from kubeledger.ingest.klog.values import unquote_go, without_masks
from kubeledger.ingest.sources.items import LogLine
from kubeledger.ingest.sources.times import go_date, go_time
from kubeledger.model.patterns import regex
from kubeledger.model.units import NS_PER_S

OCCURRED = "Event occurred"
SENT = frozenset(
    (
        "Server rejected event (will not retry!)",
        "Unable to write event (broadcaster is shut down)",
        "Unable to write event (may retry after sleeping)",
        "Unable to write event (retry limit exceeded!)",
    )
)
"""Messages of structured lines that hold an event."""
SENT_BEGIN = ("Server rejected event", "Unable to write event")

_PLAIN = regex(
    r"&Event\{ObjectMeta:\{(?P<id>\S*) .*?"
    r"\},InvolvedObject:ObjectReference\{Kind:(?P<kind>\w*),Namespace:(?P<namespace>[^,]*),"
    r"Name:(?P<name>[^,]*),UID:(?P<uid>[^,]*),.*?,FieldPath:(?P<path>[^,]*),\},"
    r"Reason:(?P<reason>\w*),Message:(?P<message>.*),"
    r"Source:EventSource\{Component:(?P<component>[^,]*),Host:[^,]*,\},"
    r".*?LastTimestamp:(?P<time>\d{4}-\d\d-\d\d [\d:.]+ [+-]\d{4}).*?Count:(?P<count>\d+),"
    r"Type:(?P<type>\w*),",
    re.DOTALL,
)
_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_GO = regex(
    rf"&v1\.Event\{{.*?ObjectMeta:v1\.ObjectMeta\{{Name:(?P<id>{_QUOTED}), .*?"
    rf"InvolvedObject:v1\.ObjectReference\{{Kind:(?P<kind>{_QUOTED}), "
    rf"Namespace:(?P<namespace>{_QUOTED}), Name:(?P<name>{_QUOTED}), UID:(?P<uid>{_QUOTED}), "
    rf".*?FieldPath:(?P<path>{_QUOTED})\}}, "
    rf"Reason:(?P<reason>{_QUOTED}), Message:(?P<message>{_QUOTED}), "
    rf"Source:v1\.EventSource\{{Component:(?P<component>{_QUOTED}), Host:{_QUOTED}\}}, "
    r".*?LastTimestamp:(?P<time>.*?), Count:(?P<count>\d+), "
    rf"Type:(?P<type>{_QUOTED})",
    re.DOTALL,
)
_STAMP = regex(r"[IWEF](\d{4} \d\d:\d\d:\d\d\.\d{6}) ")
_KUBELETS = frozenset(
    (
        *("BackOff", "Created", "Evicted", "Failed", "FailedMount", "Killing", "Pulled", "Pulling"),
        *("NodeHasSufficientMemory", "NodeReady", "Started", "Unhealthy"),
    )
)
"""Reasons that only the kubelet gives, and gives often."""
_IDS_MAX = 10_000
_LATE_NS = NS_PER_S
"""Lines this late are still read in the order of their times."""


class SentEvents:
    """Which events a log has shown, and those it shows as it fails to send them."""

    def __init__(self) -> None:
        self._are_logged = False
        self._seen: dict[tuple[str, int], None] = {}

    def take(self, line: LogLine) -> bool:
        """Take in an entry; True where it is one that was not sent, and became ``Event occurred``.

        Where the log shows events as they occur, what is sent of them later is no news.
        Controllers in the kubelet's process log theirs at any verbosity. Of an entry that
        was cut it is not known.
        """
        occurred = line.message == OCCURRED
        if not occurred and (line.file != "event.go" or not line.message.startswith(SENT_BEGIN)):
            return False
        values = line.values or {}
        with suppress(CutLineError):
            if occurred:
                self._are_logged |= str(values.get("reason")) in _KUBELETS
            else:
                text = line.message if line.values is None else str(values.get("event", ""))
                return self._read(line, text)
        return False

    def _read(self, line: LogLine, text: str) -> bool:
        """Turn a line that holds an event into ``Event occurred``, at the time of the event.

        A line that comes more than a second after its event keeps its own time.

        Returns:
            Whether it is one that the log had not reported before, of a kubelet.
        """
        match = _PLAIN.search(text) or _GO.search(text)
        if match is None or self._are_logged:
            return False
        fields = match.groupdict()
        if match.re.pattern == _GO.pattern:
            fields = {
                key: unquote_go(value) if value.startswith('"') else value
                for key, value in fields.items()
            }
        event_id = (fields["id"], int(fields["count"]))
        if fields["component"] != "kubelet" or event_id in self._seen:
            return False
        if len(self._seen) >= _IDS_MAX:
            del self._seen[next(iter(self._seen))]
        self._seen[event_id] = None
        late_ns = _late_ns(line, fields["time"])
        if late_ns is not None and 0 <= late_ns <= _LATE_NS:
            line.ts_ns -= late_ns
        line.message, line.values = OCCURRED, without_masks(_values(fields))
        return True


def _values(fields: dict[str, Any]) -> dict[str, Any]:
    """The values of the line that a more verbose log has."""
    name = fields["name"]
    return {
        "object": f"{fields['namespace']}/{name}" if fields["namespace"] else name,
        "kind": fields["kind"],
        "fieldPath": fields["path"],
        "type": fields["type"],
        "reason": fields["reason"],
        "message": fields["message"],
        "podUID": fields["uid"],
    }


def _late_ns(line: LogLine, time: str) -> int | None:
    """How long before its line the event was; None where its time cannot be read."""
    date = go_date(time)
    stamp = _STAMP.search(line.text) if date is not None else None
    try:
        if date is None:
            return line.ts_ns - go_time(time)
        # Both are in the zone of the machine, whichever that is.
        return None if stamp is None else stamp_ns(stamp[1].encode(), date[0]) - date[1]
    except ValueError:
        return None
