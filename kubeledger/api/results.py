"""What an opened ledger answers with: text in a terminal, tables in a notebook, data for code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import msgspec

from kubeledger.analyze.sql.rows import html_table
from kubeledger.model.units import format_ts
from kubeledger.verify.finding import VERDICTS, Contradiction, Outcome, Tally

if TYPE_CHECKING:
    from kubeledger.analyze.whatif import Change, Outlook
    from kubeledger.analyze.why import Answer, Piece, StoryStep
    from kubeledger.ingest.api import ImportReport

_SHOWN = 20
"""More lines or rows are counted, not shown."""
_LINE_MAX = 1000

Row = dict[str, Any]


class _Answered(ABC):
    """Text for ``print`` and IPython."""

    def __str__(self) -> str:
        """Its lines, each cut, and without anything that a terminal would act upon."""
        return "\n".join(map(_shown, self._lines()))

    @abstractmethod
    def _lines(self) -> Iterator[str]:
        """What it says, a line at a time."""

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ANN401 - IPython's
        """What IPython shows in a terminal."""
        printer.text("..." if cycle else str(self))


class Verification(_Answered):
    """All decisions of a ledger, decided again whenever one iterates over it.

    ``print`` and notebooks show the counts and what is wrong; the first of them decides
    everything once, ``repr`` nothing.
    """

    def __init__(self, begin: Callable[[], Iterator[Outcome]]) -> None:
        self._begin = begin

    def __iter__(self) -> Iterator[Outcome]:
        """Findings, one a decision, and contradictions, node by node."""
        return self._begin()

    @property
    def tally(self) -> Tally:
        """Counts by kind and verdict, and of missing inputs."""
        return self._summary[0]

    @property
    def wrong(self) -> list[Outcome]:
        """Decisions that the kubelet could not have taken, and sources that contradict others."""
        return self._summary[1]

    @cached_property
    def _summary(self) -> tuple[Tally, list[Outcome]]:
        tally = Tally()
        wrong: list[Outcome] = []
        for outcome in self:
            tally.add(outcome)
            if isinstance(outcome, Contradiction) or outcome.is_wrong:
                wrong.append(outcome)
        return tally, wrong

    def __repr__(self) -> str:
        """Nothing is decided for it."""
        return "<Verification: iterate over it, or print it>"

    def _lines(self) -> Iterator[str]:
        tally = self.tally
        counts = ", ".join(f"{tally.count(verdict):,} {verdict}" for verdict in VERDICTS)
        yield (
            f"{tally.decisions:,} decisions: {counts}; {tally.inferred.total():,} inferred; "
            f"{tally.contradictions:,} contradictions"
        )
        yield from _listed(map(_wrong_row, self.wrong), len(self.wrong))

    def _repr_html_(self) -> str:
        """Counts by kind, then what is wrong."""
        tally = self.tally
        counts = [
            (kind, *(each[verdict] for verdict in VERDICTS))
            for kind, each in (*sorted(tally.by_kind.items()), ("inferred", tally.inferred))
        ]
        table = html_table(("kind", *VERDICTS), counts)
        return table + _table(("time", "what", "why"), map(_wrong_row, self.wrong), len(self.wrong))


class Reasons(_Answered):
    """Why something is as it is.

    Attributes:
        answers: (n,) n >= 1, one a node that knows of it: headline, steps, sentence, evidence.
    """

    def __init__(self, answers: tuple[Answer, ...]) -> None:
        self.answers = answers

    @property
    def headline(self) -> str:
        """The answer in short; of several nodes a line each."""
        return "\n".join(answer.headline for answer in self.answers)

    @property
    def sentence(self) -> str:
        """The answer with all its reasons; of several nodes a line each."""
        return "\n".join(answer.sentence for answer in self.answers)

    def dicts(self) -> list[Row]:
        """The numbered evidence, with aware times: rows for any frame."""
        return [
            {"node": answer.node, "ts": _instant(piece.ts_ns), **msgspec.structs.asdict(piece)}
            for answer in self.answers
            for piece in answer.evidence
        ]

    def __repr__(self) -> str:
        """The answer alone."""
        return f"<Reasons: {self.headline}>"

    def _lines(self) -> Iterator[str]:
        for answer in self.answers:
            yield answer.headline
            yield "What happened:"
            for step in answer.steps:
                yield f"  {' '.join(_step_row(step))}"
            yield f"Evidence on {answer.node}:"
            for piece in answer.evidence:
                number, *what, place, text = _evidence_row(piece)
                yield f"  {number}. {' '.join(what)}"
                if place:
                    yield f"     {place}  {text}"

    def _repr_html_(self) -> str:
        """The answer, its steps, and a table of its evidence."""
        columns = ("", "time", "what", "", "where", "line")
        return "".join(
            f"<p>{escape(answer.headline)}</p>"
            + html_table(("time", "what happened"), map(_step_row, answer.steps))
            + html_table(columns, map(_evidence_row, answer.evidence))
            for answer in self.answers
        )


class NodeOutlook(msgspec.Struct, frozen=True, kw_only=True):
    """A variant of a node.

    Attributes:
        node: whose.
        outlook: its counts.
        changes: (n,) decisions that would have been others, in the order of replay.
    """

    node: str
    outlook: Outlook
    changes: tuple[Change, ...]


class Outlooks(_Answered):
    """What would have been decided under other settings.

    Attributes:
        variants: (n,) each variant of each node.
    """

    def __init__(self, variants: tuple[NodeOutlook, ...]) -> None:
        self.variants = variants

    def dicts(self) -> list[Row]:
        """All changes, with aware times: rows for any frame."""
        return [
            {
                "node": each.node,
                "variant": each.outlook.variant,
                "ts": _instant(change.ts_ns),
                **msgspec.structs.asdict(change),
            }
            for each in self.variants
            for change in each.changes
        ]

    def __repr__(self) -> str:
        """How many variants and changes."""
        changes = sum(len(each.changes) for each in self.variants)
        return f"<Outlooks: {len(self.variants)} variants, {changes} changes>"

    def _lines(self) -> Iterator[str]:
        for each in self.variants:
            counts = ", ".join(f"{count:,} {name}" for name, count in _counts(each.outlook))
            yield f"{each.node}, {each.outlook.variant}: {counts}"
            yield from _listed(map(_change_row, each.changes), len(each.changes))

    def _repr_html_(self) -> str:
        """Counts of each variant, and a table of its changes."""
        parts: list[str] = []
        for each in self.variants:
            names, counts = zip(*_counts(each.outlook), strict=True)
            columns = ("node", "variant", *names)
            parts.append(html_table(columns, [(each.node, each.outlook.variant, *counts)]))
            if each.changes:
                columns = ("time", "decision", "about", "why", "untrusted")
                rows = map(_change_row, each.changes)
                parts.append(_table(columns, rows, len(each.changes)))
        return "".join(parts)


class Imported(_Answered):
    """What an import added.

    Attributes:
        report: all of it, file by file.
        happened: (n,) what happened on each node that got records, a sentence each.
    """

    def __init__(self, report: ImportReport, happened: tuple[str, ...]) -> None:
        self.report = report
        self.happened = happened

    def __repr__(self) -> str:
        """How many records."""
        return f"<Imported: {self.report.added:,} records>"

    def _lines(self) -> Iterator[str]:
        yield f"{self.report.added:,} records added"
        for each in self.report.bundles:
            yield from (f"warning: {found.message}" for found in each.findings)
        yield from self.happened

    def _repr_html_(self) -> str:
        """The same in paragraphs."""
        return "".join(f"<p>{escape(line)}</p>" for line in self._lines())


def _instant(ts_ns: int) -> datetime:
    return datetime.fromtimestamp(ts_ns // 1_000_000_000, UTC).replace(
        microsecond=ts_ns % 1_000_000_000 // 1000
    )


def _wrong_row(outcome: Outcome) -> tuple[str, str, str]:
    return format_ts(outcome.ts_ns), outcome.subject, outcome.why


def _change_row(change: Change) -> tuple[str, str, str, str, str]:
    doubt = change.untrusted_since
    since = "" if doubt is None else f"(untrusted since the change at record {doubt})"
    return format_ts(change.ts_ns), change.kind, change.subject, change.why, since


def _evidence_row(piece: Piece) -> tuple[str, str, str, str, str, str]:
    number, time = str(piece.number), format_ts(piece.ts_ns)
    return number, time, piece.subject, piece.summary, piece.place, piece.text or ""


def _step_row(step: StoryStep) -> tuple[str, str]:
    last = f" ({step.count}×, last {format_ts(step.last_ts_ns)})" if step.count > 1 else ""
    return format_ts(step.ts_ns), step.text + last


def _counts(outlook: Outlook) -> list[tuple[str, int]]:
    names = ("decisions", "same", "changed", "untrusted", "unknown")
    return [(name, getattr(outlook, name)) for name in names]


def _table(columns: tuple[str, ...], rows: Iterator[tuple[str, ...]], count: int) -> str:
    shown = [row for _, row in zip(range(_SHOWN), rows, strict=False)]
    return html_table(columns, shown, more=f"{count - _SHOWN:,}" if count > _SHOWN else "")


def _listed(rows: Iterator[tuple[str, ...]], count: int) -> Iterator[str]:
    for _, row in zip(range(_SHOWN), rows, strict=False):
        yield f"  {' '.join(row)}".rstrip()
    if count > _SHOWN:
        yield f"  {count - _SHOWN:,} more"


def _shown(line: str) -> str:
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    return text if len(text) <= _LINE_MAX else f"{text[: _LINE_MAX - 1]}…"
