"""The entries of a log, one physical line at a time: forms, continuation lines, routes.

An entry is finished when the next one begins, because lines without a header may belong
to it (see ``lines``). Each physical line is counted once, with its entry.
"""

from __future__ import annotations

import re

from kubeledger.ingest.klog.account import (
    Account,
    ClockStep,
    EntryEnds,
    LogEntry,
    LogOutput,
    NewProcess,
    PendingEntry,
    WrongStamp,
    error_shape,
    shape_of,
    unknown_shape,
)
from kubeledger.ingest.klog.cut_lines import CutValues, LineEnds, begins_entry, begun_values
from kubeledger.ingest.klog.forms import (
    Place,
    json_keys,
    json_line,
    json_stamp,
    message_key,
    plain_evidence_line,
    text_line,
)
from kubeledger.ingest.klog.lines import (
    PARTIAL,
    Bodies,
    block_line,
    continues_free_text,
    entry_goes_on,
    opens_block,
)
from kubeledger.ingest.klog.log_signs import FATAL, is_last_words, last_line, quotes_a_crash
from kubeledger.ingest.klog.router import PREFIX_LENGTH, Handled, Route, Router, Verdict
from kubeledger.ingest.klog.sent_events import OCCURRED, SentEvents
from kubeledger.ingest.klog.stamps import Clock, exact_json_ns
from kubeledger.ingest.klog.values import split_structured, text_values
from kubeledger.ingest.sources.items import CutLine, LogLine
from kubeledger.ingest.sources.plain import normal_message
from kubeledger.ingest.sources.prefix import (
    HEADER,
    JSON_START,
    begins_kubelet,
    begins_other_program,
    is_entry,
    is_neighbour,
    may_be_kubelets,
)
from kubeledger.ingest.sources.times import carrier_time, without_year
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

VERDICTS_MAX = 100_000
NEVER = b"~"
"""Later than any stamp: the loop passes over no line before one has been read whole."""
_NO_PID = -1
_SILENCE_NS = 600 * NS_PER_S
"""What follows an entry later than that may be dated by another clock."""

_NOBODY = Handled(())
"""Asks for lines of severity W, E and F that no assembler reads."""

# To look up a member of an enumeration takes as long as three slices.
_NOISE, _UNKNOWN = Verdict.NOISE, Verdict.UNKNOWN
_UNDERSTOOD, _MIXED = Verdict.UNDERSTOOD, Verdict.MIXED


class EntryReader:
    """Reads the lines of one log that cannot be passed over."""

    def __init__(self, account: Account, router: Router, clock: Clock, ends: LineEnds) -> None:
        self.account = account
        self._ends = EntryEnds(ends)
        self._source = account.file
        self._router = router
        self._clock = clock
        self._verdicts: dict[bytes, Route] = {}
        self._bodies = Bodies()
        self._wrapped: bool | None = None
        self._pid: int | None = _NO_PID
        self._mixed_pid: int | None = _NO_PID
        self._pending: PendingEntry | None = None
        self._raw = self._tail = b""
        self._tail_kind: Verdict = _UNKNOWN
        self._in_block = False
        self._tag: bytes | None = None
        self._latest = NEVER
        self._is_known = False
        self._split_lines = 0
        self._split_line = 0
        self._out: list[LogOutput] = []
        self._ts_ns = clock.last_ns or 0
        self._events = SentEvents()

    def _take(self) -> list[LogOutput]:
        out, self._out = self._out, []
        return out

    def _line(self, place: Place) -> None:
        """Any line that the loop could not pass over."""
        if place.body is PARTIAL:
            self._split_lines += 1
            self._split_line = place.number
            return
        if self._in_block and self._continue_block(place):
            return
        if self._entry(place):
            return
        if not self._wrapped and (unwrapped := self._bodies.unwrap(place.raw)).wrapped:
            place.body = unwrapped.body
            if self._entry(place):
                return
        self._without_header(place)

    def _entry(self, place: Place) -> bool:
        """Begin an entry when the line has a header; False when it has none."""
        if place.body.startswith(JSON_START):
            return self._json(place)
        header = HEADER.match(place.body.lstrip(b"\0"))
        return header is not None and self._text(place, header)

    def _text(self, place: Place, header: re.Match[bytes]) -> bool:
        """An entry in text form; False when its stamp is not a valid time."""
        try:
            self._raw = place.raw
            ts_ns = self._clock.read(header[2], self._carried)
        except ValueError:
            return False
        place.body = header.string
        if self._clock.last_ns == ts_ns:
            self._latest = header[2]
        self._flush()
        line = text_line(place, header, ts_ns, self._source)
        self._begin(line, place)
        if line.pid != self._pid and self._is_kubelets(line, place.body):
            self._pid = line.pid
            self._out.append(NewProcess(line))
        parts = split_structured(line.message)
        if parts is not None and self._is_known:
            line.message, rest = parts
            self._structured(line, rest, None)
        elif self._is_known and line.severity in "WE" and not line.message.startswith('"'):
            # Free text that somebody reads is never known before it is whole.
            self._count(_UNDERSTOOD)
            self._hand_on(line, _NOBODY)
        else:
            self._take_news(line, place, parts)
        self._ends.note(self._pending, place)
        return True

    def _take_news(self, line: LogLine, place: Place, parts: tuple[str, str] | None) -> None:
        """An entry of which something is to be learned for the lines below."""
        caller = place.body[21 : place.body.find(b"] ", 22, 200)]
        if caller not in self._verdicts and line.severity != "F":
            self._learn(caller, self._router.file_verdict(line.file))
        if parts is None:
            end = len(caller) + 21
            self._free_text(line, place.body[21 : end + 2 + PREFIX_LENGTH])
        else:
            line.message, rest = parts
            self._structured(line, rest, message_key(place.body))

    def _is_kubelets(self, line: LogLine, body: bytes) -> bool:
        """Whether the kubelet wrote the line of another process than the last.

        Programs that run it beside the API server and others begin with lines of theirs; what
        others write into the same file is of files that it does not have.
        """
        if line.pid != self._mixed_pid and (
            begins_other_program(body)
            or not (self._router.has_file(line.file) or may_be_kubelets(body))
        ):
            self._mixed_pid = line.pid
        return line.pid != self._mixed_pid or begins_kubelet(body)

    def _carried(self, raw: bytes | None = None) -> int | None:
        """When the carrier of a line, or of the one that is read, dated it; None: it did not."""
        time = self._bodies.unwrap(self._raw if raw is None else raw).time
        if time is None:
            return None
        if (found := carrier_time(time)) is not None:
            return found.ts_ns
        wall_ns = without_year(time, self._clock.year)
        return None if wall_ns is None else wall_ns - self._clock.offset_ns

    def _json(self, place: Place) -> bool:
        """An entry in JSON form; False when it is cut short."""
        body = place.body
        caller, message, beginning = json_keys(body)
        verdict = self._verdicts.get(caller)
        if verdict is None or verdict is _MIXED:
            verdict = self._verdicts.get(message) or self._verdicts.get(beginning)
        try:
            ts_ns = exact_json_ns(json_stamp(body))
        except ValueError:
            return False
        line = None
        if (
            not isinstance(verdict, Verdict)
            or verdict is _MIXED
            or self._clock.has_news
            or b',"v":' not in body
        ):
            line = json_line(place, ts_ns, self._source)
            if line is None:
                return False
        self._flush()
        self._raw = place.raw
        if self._clock.observe(ts_ns, self._carried) == self._clock.last_ns:
            self._latest = json_stamp(body)
        if line is None and not self._clock.has_news:
            assert isinstance(verdict, Verdict)
            self._ts_ns, self._tail, self._in_block = ts_ns, body, False
            self._count(verdict)
            return True
        line = line or json_line(place, ts_ns, self._source)
        self._json_entry(line, place, (caller, message, beginning))
        return True

    def _json_entry(
        self, line: LogLine | None, place: Place, keys: tuple[bytes, bytes, bytes]
    ) -> None:
        if line is None:  # the cached verdict was for a line that is cut short here
            self._without_header(place)
            return
        self._begin(line, place)
        self._in_block = False
        if self._pid == _NO_PID:
            self._pid = None
            self._out.append(NewProcess(line))
        caller, message, beginning = keys
        if caller:
            self._learn(caller, self._router.file_verdict(line.file))
        if line.values or self._router.is_structured(line.message):
            self._structured(line, None, message or None)
        else:
            line.values = None
            self._free_text(line, beginning or None)

    def _begin(self, line: LogLine, place: Place) -> None:
        """State for the lines that may follow this entry's first one."""
        self._ts_ns = line.ts_ns
        self._tail = place.body
        self._in_block = opens_block(place.body)
        self._tag = self._bodies.unwrap(place.raw).tag if self._wrapped else None
        if self._clock.has_news:
            if (step := self._clock.take_step()) is not None:
                self._out.append(ClockStep(line, *step))
            if (doubt := self._clock.take_doubt()) is not None:
                self._out.append(WrongStamp(doubt))

    def _learn(self, key: bytes, verdict: Route) -> None:
        if len(self._verdicts) >= VERDICTS_MAX:
            self._verdicts.clear()
        self._verdicts[key] = verdict

    def _structured(self, line: LogLine, rest: str | None, key: bytes | None) -> None:
        route = self._router.structured(line.file, line.message)
        if key is not None and route is not _UNKNOWN:
            self._learn(key, route)
        if isinstance(route, Handled):
            self._pending = PendingEntry(line, route, rest)
            self._count(_UNDERSTOOD)
            return
        if route is _UNKNOWN:
            self._reject(shape_of(line.file, line.message, True), line.line, line.evidence)
        else:
            self._count_entry(line, route)
        if line.is_error:
            if rest is not None:
                line.values = dict(text_values(rest))
            self._hand_on(line, _NOBODY)

    def _free_text(self, line: LogLine, key: bytes | None = None) -> None:
        if line.severity != "F" and self._router.file_verdict(line.file) is _NOISE:
            self._count_entry(line, _NOISE)
            if line.is_error:
                self._hand_on(line, _NOBODY)
        else:
            self._pending = PendingEntry(line, None, key=key)

    def _count_entry(self, line: LogLine, verdict: Verdict, lines: int = 1) -> None:
        """Count an entry that is known; nothing of severity W, E or F is noise."""
        self._count(_UNDERSTOOD if line.is_error else verdict, lines)

    def _count(self, verdict: Verdict, lines: int = 1) -> None:
        lines += self._split_lines
        self._split_lines = 0
        self._tail_kind = verdict
        if verdict is _NOISE:
            self.account.noise += lines
        else:
            self.account.understood += lines

    def _count_split(self) -> None:
        """At the end: pieces of a split line go where its last one went, or are half a line."""
        if not self._split_lines:
            return
        self._split_lines -= 1
        if self._bodies.is_open or self._tail_kind is Verdict.UNKNOWN:
            place = Place(b"", b"", self._split_line, 0)
            self._reject_plain(place, "(half a line)")
        else:
            self._count(self._tail_kind)

    def _reject(self, shape: str, number: int, evidence: Evidence) -> None:
        self._tail_kind = _UNKNOWN
        for _ in range(1 + self._split_lines):
            fact = self.account.reject(shape, number, evidence, self._ts_ns)
            if fact is not None:
                self._out.append(fact)
        self._split_lines = 0

    def _flush(self) -> None:
        """The entry before this line is whole: route it."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        line = pending.line
        if pending.handled is not None:
            if pending.rest is not None:
                line.values = self._ends.values(pending, pending.rest)
                if isinstance(line.values, CutValues) and line.values.missing_keys is None:
                    self._cut(line)
            self._hand_on(line, pending.handled)
            return
        line.message = normal_message(pending.whole(line.message))
        if line.severity == "F":
            route = self._router.structured("", FATAL)
        else:
            route = self._router.free_text(line.file, line.message)
        may_be_cut = line.severity != "F" and route is not _NOISE
        is_cut = may_be_cut and self._ends.is_cut(pending, route)
        if is_cut:
            self._cut(line)
            # What is left of an error tells whom it is about, and mostly why.
            if not line.is_error or not isinstance(route, Handled) or route.match is None:
                route = _UNKNOWN
        elif (
            pending.key is not None
            and route in (_NOISE, _UNDERSTOOD)
            and self._router.may_remember(line.file, line.message)
        ):
            self._learn(pending.key, route)
        if isinstance(route, Handled):
            self._hand_on(line, route, is_cut=is_cut)
            route = _UNDERSTOOD
        elif line.is_error:
            self._hand_on(line, _NOBODY)
        if route is _UNKNOWN:
            shape = shape_of(line.file, line.message, False)
            for number in (line.line, *pending.numbers):
                self._reject(shape, number, line.evidence)
        else:
            self._count_entry(line, route, 1 + len(pending.numbers))

    def _cut(self, line: LogLine) -> None:
        """Report a line that was cut."""
        self._out.append(CutLine(line, self._ends.ends.cut_at))

    def _hand_on(self, line: LogLine, handled: Handled, *, is_cut: bool = False) -> None:
        """An entry for its handlers; an event that was not sent, for those of events."""
        # Last words without a header are no line of klog's, whatever they end.
        is_klogs = line.file or line.severity != "F"
        shape = error_shape(line) if line.is_error and is_klogs else None
        if handled.handlers and self._events.take(line):
            route = self._router.structured(line.file, OCCURRED)
            handled = route if isinstance(route, Handled) else handled
        elif handled.row is not None:
            handled.row.read(line, handled.match)
            if is_cut and line.values and handled.match is not None and handled.match.lastindex:
                line.values = begun_values(line.values)
        self._out.append(LogEntry(line, handled.handlers, handled.needs, shape))

    def _repeated(self, place: Place) -> None:
        """Count a line that says again what one above said; an unknown one stays findable."""
        header = HEADER.match(place.body)
        if header is not None:
            line: LogLine | None = text_line(place, header, self._ts_ns, self._source)
        else:
            line = json_line(place, self._ts_ns, self._source)
        shape = None if line is None else unknown_shape(self._router, line)
        if line is None or shape is None:
            self.account.repeated += 1
            self.account.noise += 1
            return
        kind = self._tail_kind
        self._reject(shape, place.number, line.evidence)
        self._tail_kind = kind

    # --- lines without a header -------------------------------------------------------

    def _continue_block(self, place: Place) -> bool:
        """A line inside ``key=<`` ... `` >``; False when it is none of the block."""
        line = block_line(place.body)
        if line is None or (self._pending is not None and self._is_foreign(place)):
            if is_entry(place.body):
                self._in_block = False
            return False
        self._in_block = not line.closes or opens_block(line.text)
        self._append(place, line.text)
        return True

    def _is_foreign(self, place: Place) -> bool:
        """Another program than that of the entry above wrote the line."""
        return bool(self._wrapped) and self._bodies.unwrap(place.raw).tag != self._tag

    def _append(self, place: Place, body: bytes) -> None:
        """One more line of the entry above."""
        pending = self._pending
        self._ends.note(pending, place)
        if pending is not None:
            pending.append(place.number, body)
            if pending.handled is not None:
                self._count(_UNDERSTOOD)
        elif self._tail_kind is _UNKNOWN:
            self._reject_plain(place, "(continued)")
        else:
            self._count(self._tail_kind)

    def _without_header(self, place: Place) -> None:
        text = place.body.rstrip().decode("utf-8", "replace")
        tag = self._bodies.unwrap(place.raw).tag if self._wrapped else None
        foreign = bool(self._wrapped) and tag != self._tag
        blank = not text.strip()
        known = (tag != self._tag and is_neighbour(tag)) or (not blank and self._router.plain(text))
        is_cut = not known and begins_entry(place.body)
        ends = is_last_words(text, tag, self._tag)
        if ends and self._pending is not None and quotes_a_crash(self._pending.line.message):
            self._append(place, place.body)
        elif ends:
            self._flush()
            self._pending = PendingEntry(
                last_line(place, self._dated(place.raw), self._pid, self._source), None
            )
        elif not foreign and not known and not is_cut and self._may_continue():
            self._append(place, place.body)
        elif known or blank:
            kind = self._tail_kind
            self._count(_NOISE)
            self._tail_kind = kind
        else:
            if is_cut:
                self._cut(plain_evidence_line(place, self._ts_ns, self._source))
            self._reject_plain(place, shape_of("", text, False))

    def _dated(self, raw: bytes) -> int:
        """When the carrier says that a line was written; else the time of the entry above.

        A journal in another zone than the kubelet's stamps is further away.
        """
        ts_ns = self._carried(raw) or 0
        return ts_ns if 0 <= ts_ns - self._ts_ns <= _SILENCE_NS else self._ts_ns

    def _may_continue(self) -> bool:
        """The entry above is free text that is known to go on in such lines."""
        pending = self._pending
        if pending is not None:
            line = pending.line
            return pending.handled is None and continues_free_text(
                line.severity, line.file, line.message
            )
        return entry_goes_on(self._tail)

    def _reject_plain(self, place: Place, shape: str) -> None:
        kind = self._tail_kind
        line = plain_evidence_line(place, self._ts_ns, self._source)
        self._reject(shape, place.number, line.evidence)
        self._tail_kind = kind
