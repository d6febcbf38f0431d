"""The account of every line, understood, noise or not; and what the reader hands on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from kubeledger.ingest.klog.cut_lines import CutValues, LineEnds, ends_open
from kubeledger.ingest.klog.forms import Place, go_text
from kubeledger.ingest.klog.router import Handled, LineHandler, Needs, Route, Router, Verdict
from kubeledger.ingest.klog.stamps import Doubt
from kubeledger.ingest.klog.values import split_structured, text_values, without_masks
from kubeledger.ingest.sources.items import CutLine, Fact, LogLine
from kubeledger.ingest.sources.plain import normal_message
from kubeledger.model.bodies.ledger import LinesNotUnderstood, SourceAccount
from kubeledger.model.patterns import regex
from kubeledger.model.record import Evidence

# The shape of a line of severity W, E or F: its message without its values.
#
# Two lines that one call wrote have one shape, whatever pod, image or time they name; each try of
# what fails again and again has the shape of the first.

_ERROR_SHAPE_LENGTH = 240
_TEXT_LENGTH = 4096
"""More of a message is not looked at."""
_BEGIN = r"""(?<![^\s,;:=()\[\]{}"'])"""
"""Where a word begins: to search in its midst would look at each letter many times."""
_QUOTED = regex(
    rf"""
      "[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)
    | {_BEGIN}(?:'[^']*(?:'(?!\w)|\Z) | [^_\s",()\[]++_[^_\s",()]++\([^\s")]*\))
    """,
    re.VERBOSE | re.DOTALL,
)
"""What stands in quotes; a pod with its UID."""
_INNERMOST = regex(r"\{[^{}]*\}|(?<!^)\[(?![^\[\]]*(?:, [A-Za-z]| (?:to|is|not|of) ))[^\[\]]*\]")
"""Go's values; ``[one error, another]``, sentences and a beginning ``[cpumanager]`` are words."""
_OPEN = regex(r"\{.*\Z", re.DOTALL)
_VALUE = regex(
    rf"""{_BEGIN}(?:
      (?P<kept>\*?v\d+(?:(?:alpha|beta)\d+)?\.[A-Z]\w+)  # a type of the API
    | \d{{4}}-\d\d-\d\d[ ]\d\d:\d\d:\d\d\S*(?:[ ][+-]\d{{4}})?(?:[ ][A-Z]{{3,4}}\b)?(?:[ ]m=\S+)?
    | [a-z]++://[^\s,"]*
    | (?<=feature[ ]gate:[ ])\w+ | (?<=feature[ ]gate[ ])\w+=\w+
    | [^\s,;:=()\[\]{{}}"'\d/]*+[\d/](?:[^\s,;:()\[\]{{}}"']|:(?=\w))*+
    )""",
    re.VERBOSE,
)
_DESCRIBED = regex(r'desc = "([^"\\]*)"')
"""gRPC puts the cause of a broken connection in quotes: it is no value."""
_CUT_STRUCTURED = regex(r'"([^"\\]++)" (?:\w+=|\w*+>?\Z)')
"""The message of a line whose values could not be read: the first is cut, or its key."""
_RUN = regex(r"\*(?:[\s.:,+=-]*\*)+(?!v\d)")


def error_shape(line: LogLine) -> str:
    """The message's constant words and those of its error: what failed, and how."""
    message = line.message
    if not line.values and (cut := _CUT_STRUCTURED.match(message)):
        message = cut[1]  # a constant, though it stands in quotes
    error = dict.get(line.values, "err") if line.values else None
    if error is not None:
        message = f"{message}: {go_text(error)}"
    return constant_words(message.partition("\n")[0][:_TEXT_LENGTH])


@lru_cache(4096)
def constant_words(text: str) -> str:
    """A text without its values: quoted texts, names with digits or slashes, times, Go's lists."""
    words, groups = _QUOTED.sub("*", _DESCRIBED.sub(r"desc = \1", text)), 1
    while groups:
        words, groups = _INNERMOST.subn("*", words)
    words = _OPEN.sub("*", words)
    words = _VALUE.sub(lambda value: value["kept"] or "*", words)
    return _RUN.sub("*", words)[:_ERROR_SHAPE_LENGTH].rstrip(" :,") or "(no words)"


LINES_A_RECORD = 1000
SHAPES_MAX = 1000
"""More shapes than this in one source are counted together: memory must stay flat."""

_OTHER_SHAPE = "(more shapes)"
_VARIABLE = regex(r"""["'`{(\[<]|\d|=|/|0x|\b[0-9a-f]{8,}\b""")
_SHAPE_LENGTH = 80
_HEAD = regex(r"\0*[IWEF]\S{3,5} [\d:.x?-]{8,20}\s+\S+ (?:\S*/)?([\w.-]+\.go):\d+\] ")
_JSON_CALLER = regex(r'"caller":"(?:[^"]*/)?([^"/:]+)')
_JSON_MESSAGE = regex(r'"msg":"([^"]*)')


def shape_of(file: str, message: str, structured: bool, flaw: str | None = None) -> str:
    """``file.go`` and the message up to its first variable part.

    A structured message is constant, so it is taken whole. An entry that comes without its
    file is one whose head could not be read: it is known by the caller and text after it.
    ``flaw`` says what is wrong with it, where that is not its head or its JSON.
    """
    first_line = message.partition("\n")[0]
    head = None if file else _HEAD.match(first_line)
    if head is not None:
        file = f"({flaw or 'damaged head'}) {head[1]}"
        first_line = first_line[head.end() :].lstrip('"')
    elif not file and first_line.startswith('{"ts":'):
        return _json_shape(first_line, flaw or "damaged JSON")
    text = first_line if structured else _constant_part(first_line)
    return f"{file} {text[:_SHAPE_LENGTH]}".strip() or "(no words)"


def _json_shape(line: str, flaw: str) -> str:
    caller, message = _JSON_CALLER.search(line), _JSON_MESSAGE.search(line)
    parts = (caller[1] if caller else "", _constant_part(message[1]) if message else "")
    return " ".join((f"({flaw})", *filter(None, parts)))[:_SHAPE_LENGTH]


def _constant_part(text: str) -> str:
    variable = _VARIABLE.search(text)
    return (text[: variable.start()] if variable else text).rstrip()


class _Shape(msgspec.Struct):
    evidence: Evidence
    lines: list[int] = []


class Account:
    """The account of one source.

    Attributes:
        file: path within the bundle.
        known_bytes: an earlier import has reported the lines of so many first bytes: those
            are counted here, but not reported again.
        repeated: lines of the noise that say again what another line of the bundle said.
        records: kind -> facts whose first evidence stands in this source.
    """

    def __init__(self, file: str, known_bytes: int = 0) -> None:
        self.file = file
        self.known_bytes = known_bytes
        self.lines = 0
        self.understood = 0
        self.noise = 0
        self.repeated = 0
        self.records: Counter[str] = Counter()
        self._not_understood = 0
        self._misread: set[int] = set()
        self._shapes: dict[str, _Shape] = {}

    @property
    def not_understood(self) -> int:
        """Count of physical lines that are neither understood nor noise."""
        return self._not_understood

    def reject(self, shape: str, line: int, evidence: Evidence, ts_ns: int) -> Fact | None:
        """Note a line that is not understood; a fact when enough have gathered."""
        self._not_understood += 1
        if evidence.offset is not None and evidence.offset < self.known_bytes:
            return None
        if shape not in self._shapes and len(self._shapes) >= SHAPES_MAX:
            shape = _OTHER_SHAPE
        entry = self._shapes.get(shape)
        if entry is None:
            entry = self._shapes[shape] = _Shape(evidence)
        entry.lines.append(line)
        if len(entry.lines) < LINES_A_RECORD:
            return None
        del self._shapes[shape]
        return self._fact(shape, entry, ts_ns)

    def misread(self, shape: str, line: int, evidence: Evidence, ts_ns: int) -> Fact | None:
        """A line that counts as understood was not; the fact that says so, once a line."""
        if line in self._misread:
            return None
        self._misread.add(line)
        self.understood -= 1
        self._not_understood += 1
        return self._fact(shape, _Shape(evidence, [line]), ts_ns)

    def leave_out(self, lines: int) -> None:
        """Note lines that are not read, because another log holds them, too."""
        self.lines += lines
        self.noise += lines
        self.repeated += lines

    def pass_over(self, others: int, twice: int) -> None:
        """Take down rows of other programs, and rows that are there once more."""
        self.lines += others + twice
        self.noise += others + twice
        self.repeated += twice

    def drain(self, ts_ns: int) -> list[Fact]:
        """The facts of all lines not yet reported, in the order of their first lines."""
        facts = [self._fact(shape, entry, ts_ns) for shape, entry in self._shapes.items()]
        self._shapes.clear()
        return facts

    def _fact(self, shape: str, entry: _Shape, ts_ns: int) -> Fact:
        body = LinesNotUnderstood(
            file=self.file, shape=shape, count=len(entry.lines), lines=tuple(entry.lines)
        )
        return Fact(ts_ns, body, (entry.evidence,))

    def total(self) -> SourceAccount:
        return SourceAccount(
            file=self.file,
            lines=self.lines,
            understood=self.understood,
            noise=self.noise,
            not_understood=self._not_understood,
            repeated=self.repeated,
            records=dict(sorted(self.records.items())),
        )


# What the reader of a log hands on.

JOINED_MAX = 1 << 20
"""Bytes of continuation lines that an entry takes; more are counted but not kept."""


class LogEntry(msgspec.Struct):
    """A log line, the handlers that asked for it, and the keys that they need.

    Attributes:
        shape: of a line of severity W, E or F its message without values: it is told, whoever
            asked for it; None of others.
    """

    line: LogLine
    handlers: Sequence[LineHandler]
    needs: Needs = ()
    shape: str | None = None

    def lacks(self) -> str | None:
        """The first key that it needs and does not have; None where it has all.

        A cut line shows itself what of it is missing, when it is asked for it.
        """
        values = self.line.values or {}
        if isinstance(values, CutValues):
            return None
        keys = values.keys()
        for alternatives in self.needs:
            if keys.isdisjoint(alternatives):
                return alternatives[0]
        return None


class NewProcess(msgspec.Struct):
    """The first line of a log, or of another process ID in it."""

    line: LogLine


class ClockStep(msgspec.Struct):
    """The clock went back before this line."""

    line: LogLine
    from_ts_ns: int
    to_ts_ns: int


class WrongStamp(msgspec.Struct):
    """One of the lines above has a stamp that is not believed."""

    doubt: Doubt


Ordered = LogEntry | NewProcess | ClockStep | CutLine | Fact
"""What comes of a log in the end; facts are those about lines that are not understood."""
LogOutput = Ordered | WrongStamp
"""What the reader hands on."""


class PendingEntry(msgspec.Struct):
    """An entry whose last line may not have been seen.

    Attributes:
        handled: by whom, known at once for structured lines; None: free text, known when whole.
        rest: what follows the message of a structured text line; None for JSON.
        key: what a verdict on a free-text entry may be remembered by.
        continuation: its further lines; ``numbers`` where they stand, ``kept`` their bytes.
        cut: one of its lines was cut.
    """

    line: LogLine
    handled: Handled | None
    rest: str | None = None
    key: bytes | None = None
    continuation: list[str] = []
    numbers: list[int] = []
    kept: int = 0
    cut: bool = False

    def append(self, number: int, body: bytes) -> None:
        """One more line of the entry, without its carrier's prefix."""
        self.numbers.append(number)
        self.kept += len(body)
        if self.kept <= JOINED_MAX:
            self.continuation.append(body.rstrip().decode("utf-8", "replace"))

    def whole(self, first: str) -> str:
        """All lines of the text that begins with ``first``."""
        return "\n".join((first, *self.continuation)) if self.continuation else first


# What is whole of an entry in a log whose lines may be cut.


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
        values = without_masks(text_values(text, cut=pending.cut, torn=torn))
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
