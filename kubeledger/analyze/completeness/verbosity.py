"""What the verbosity lets a log hold, and what it does hold."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Literal

import msgspec

from kubeledger.analyze.completeness.levels import KINDS, LineKind
from kubeledger.analyze.completeness.span import Span
from kubeledger.analyze.histories.logs import LogEntry, LogReading
from kubeledger.kubelet.profile.facts import parse_version
from kubeledger.model.bodies.node import KubeletStarted, Setting, SettingsObserved
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import NS_PER_S, whole_number

Status = Literal["there", "not logged", "none", "missing", "not in this version", "not known"]
"""``there``: records rest on such lines. ``not logged``: the verbosity is below theirs.
``none``: the verbosity is enough and there are none, which may well be. ``missing``: the same
of lines that a running kubelet always logs: the log was thinned out, or not imported whole."""


class Configured(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings of one kubelet process say.

    Attributes:
        seq: record of the settings.
        verbosity: None when they do not say.
        source: of the setting, as in ``node.Setting``; None as above.
    """

    seq: int
    verbosity: int | None
    source: str | None = None


class LineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of line.

    Attributes:
        level: verbosity that it takes; None when the version has no such line or is unknown.
        records: that rest on such a line.
        lost: what is not known without it.
        source: where the kubelet logs it.
    """

    name: str
    level: int | None
    records: int
    status: Status
    lost: str
    source: str


class VerbosityReport(msgspec.Struct, frozen=True, kw_only=True):
    """Section 2.

    Attributes:
        shown: the highest level of a line that is there; None without any line.
        verbosity: the lowest that the settings of any process give; None when they do not.
        kubelet_version: by whose levels the lines are judged: the last process's.
        thinned: lines that a running kubelet logs all the time are missing although the
            verbosity is enough.
    """

    configured: list[Configured]
    verbosity: int | None
    shown: int | None
    kubelet_version: str | None
    thinned: bool
    lines: list[LineStatus]


class VerbosityPart:
    """Gathers section 2."""

    def __init__(self, span: Span, log: LogReading) -> None:
        self._span = span
        self._log = log
        self._configured: list[Configured] = []
        self._version: str | None = None
        self._first_ns: int | None = None
        self._last_ns = 0
        self._seen: Counter[str] = Counter()
        self._by_record: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
        for kind in KINDS:
            for record_kind in kind.records.split():
                named = (kind.name, re.compile(kind.pattern))
                self._by_record.setdefault(record_kind, []).append(named)

    def see(self, entry: LogEntry) -> None:
        """Take in one record."""
        record, body = entry.record, entry.record.body
        if isinstance(body, SettingsObserved):
            self._configured.append(_configured(record.seq, body.settings))
        elif isinstance(body, KubeletStarted):
            self._version = body.kubelet_version or self._version
        if not self._span.holds(record.ts_ns):
            return
        texts = [e.text for e in record.evidence if e.text and self._log.is_line(e)]
        if texts:
            self._first_ns = record.ts_ns if self._first_ns is None else self._first_ns
            self._last_ns = max(self._last_ns, record.ts_ns)
        for name, pattern in self._by_record.get(record.kind, ()):
            self._seen[name] += any(pattern.search(text) for text in texts)

    def report(self) -> VerbosityReport:
        known = [one.verbosity for one in self._configured if one.verbosity is not None]
        verbosity = min(known) if len(known) == len(self._configured) and known else None
        minor = _minor(self._version)
        lines = [self._status(kind, minor, verbosity) for kind in KINDS]
        shown = [line.level for line in lines if line.records and line.level is not None]
        return VerbosityReport(
            configured=self._configured,
            verbosity=verbosity,
            shown=max(shown, default=None),
            kubelet_version=self._version,
            thinned=any(line.status == "missing" for line in lines),
            lines=sorted(lines, key=lambda line: (line.level is None, line.level or 0)),
        )

    def _status(self, kind: LineKind, minor: int | None, verbosity: int | None) -> LineStatus:
        seen = self._seen[kind.name]
        level = kind.level(minor) if minor is not None else None
        return LineStatus(
            name=kind.name,
            level=level,
            records=seen,
            status=self._judge(kind, seen, level, minor, verbosity),
            lost=kind.lost,
            source=kind.source,
        )

    def _judge(
        self,
        kind: LineKind,
        seen: int,
        level: int | None,
        minor: int | None,
        verbosity: int | None,
    ) -> Status:
        if seen:
            return "there"
        if level is None:
            return "not known" if minor is None else "not in this version"
        if verbosity is None:
            return "none" if level == 0 else "not known"
        if level > verbosity:
            return "not logged"
        return "missing" if self._is_long_enough(kind) else "none"

    def _is_long_enough(self, kind: LineKind) -> bool:
        """The log continues for so long that a regular line must be in it."""
        if kind.period_s is None or self._first_ns is None:
            return False
        return self._last_ns - self._first_ns >= 2 * kind.period_s * NS_PER_S


def _configured(seq: int, settings: dict[str, Setting]) -> Configured:
    """``logging.verbosity`` of the configuration, else the flag ``--v``."""
    for name in ("logging", "--v"):
        setting = settings.get(name)
        if setting is None:
            continue
        value: Any = setting.decoded()
        if isinstance(value, dict):
            value = value.get("verbosity")
        verbosity = _number(value)
        if verbosity is not None:
            return Configured(seq=seq, verbosity=verbosity, source=setting.source)
    return Configured(seq=seq, verbosity=None)


def _number(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return whole_number(value)


def _minor(version: str | None) -> int | None:
    try:
        return parse_version(version).minor if version else None
    except BadQuestionError:
        return None
