"""The account of every line: understood, known noise, or not understood (kept findable)."""

from __future__ import annotations

import re
from collections import Counter

import msgspec

from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.bodies.ledger import LinesNotUnderstood, SourceAccount
from kubeledger.model.record import Evidence

LINES_A_RECORD = 1000
SHAPES_MAX = 1000
"""More shapes than this in one source are counted together: memory must stay flat."""

_OTHER_SHAPE = "(more shapes)"
_VARIABLE = re.compile(r"""["'`{(\[<]|\d|=|/|0x|\b[0-9a-f]{8,}\b""")
_SHAPE_LENGTH = 80
_HEAD = re.compile(r"\0*[IWEF]\S{3,5} [\d:.x?-]{8,20}\s+\S+ (?:\S*/)?([\w.-]+\.go):\d+\] ")
_JSON_CALLER = re.compile(r'"caller":"(?:[^"]*/)?([^"/:]+)')
_JSON_MESSAGE = re.compile(r'"msg":"([^"]*)')


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
        lines, understood, noise: counts of physical lines.
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
