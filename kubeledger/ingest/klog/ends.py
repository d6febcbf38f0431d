"""What is whole of an entry in a log whose lines may be cut."""

from __future__ import annotations

from typing import Any

from kubeledger.ingest.klog.account import shape_of
from kubeledger.ingest.klog.cut_lines import CutValues, LineEnds, ends_open
from kubeledger.ingest.klog.forms import Place
from kubeledger.ingest.klog.outputs import PendingEntry
from kubeledger.ingest.klog.router import Handled, Route, Router, Verdict
from kubeledger.ingest.klog.values import split_structured, text_values
from kubeledger.ingest.sources.items import LogLine
from kubeledger.ingest.sources.plain import normal_message


class EntryEnds:
    """Shows what is cut of the entries of one log; ``ends`` as the survey found them."""

    def __init__(self, ends: LineEnds) -> None:
        self.ends = ends
        self._keys: dict[tuple[str, int], int] = {}

    def note(self, pending: PendingEntry | None, place: Place) -> None:
        """One of the lines of the entry that waits."""
        if pending is not None and self.ends.is_cut(place.raw, place.body):
            pending.cut = True

    def values(self, pending: PendingEntry, rest: str) -> dict[str, Any]:
        """Those of a structured entry that are whole."""
        line, torn = pending.line, self.ends.torn
        text = rest if pending.cut else pending.whole(rest)
        values = text_values(text, cut=pending.cut, torn=torn)
        if torn:
            # A call logs the same keys each time.
            call, count = (line.file, line.caller_line), len(values)
            if isinstance(values, CutValues):
                count += len(values.missing_keys or ())
            known = self._keys[call] = max(count, self._keys.get(call, 0))
            if count < known:
                begun = getattr(values, "begun", None)
                values = CutValues(values)
                values.begun = begun
        return values

    def is_cut(self, pending: PendingEntry, route: Route) -> bool:
        """Free text was cut, or may have been where a value stands at its end."""
        message = pending.line.message
        if pending.cut or ends_open(message.encode()):
            return True
        if not self.ends.torn or not isinstance(route, Handled):
            return False
        match = route.match
        return (
            match is not None
            and message[-1:].isalnum()
            and match.end(match.lastindex or 0) == len(message)
        )


def unknown_shape(router: Router, line: LogLine) -> str | None:
    """Shape of a line that is not understood; None for others."""
    parts = split_structured(line.message) if line.values is None else None
    message = parts[0] if parts is not None else line.message
    structured = parts is not None or bool(line.values) or router.is_structured(message)
    if structured:
        route = router.structured(line.file, message)
    else:
        route = router.free_text(line.file, normal_message(message))
    return shape_of(line.file, message, structured) if route is Verdict.UNKNOWN else None
