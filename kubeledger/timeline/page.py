"""The HTML file: style, script, drawings and records in one page that makes no request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.analyze.sql.api import connect
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.errors import BadQuestionError
from kubeledger.timeline.ask import NodeView, Scope
from kubeledger.timeline.blocks import Block, blocks
from kubeledger.timeline.build import build_drawing
from kubeledger.timeline.drawing import Curve, Drawing, Item, Row
from kubeledger.timeline.shell import embedded, html_page, script_of, static_text

_VERDICT_CODES = {"match": 0, "admissible": 1, "impossible": 2, "unverifiable": 3}
_COLUMNS = ("row", "kind", "start", "length", "label", "seq", "verdict")


def node_payload(drawing: Drawing) -> dict[str, Any]:
    """One node of the page's payload."""
    items = _Items(drawing)
    rows: list[dict[str, Any]] = []
    curves: list[dict[str, Any]] = []
    for index, section in enumerate(drawing.sections):
        for row in section.rows:
            if row.curve is not None:
                curves.append(_curve(drawing, len(rows), row.curve))
            items.add(len(rows), row)
            rows.append(
                {
                    "section": index,
                    "label": row.label,
                    "note": row.note,
                    "depth": row.depth,
                    "shape": row.shape,
                }
            )
    return {
        "node": drawing.node,
        "versions": list(drawing.versions),
        "base_ns": str(drawing.start_ns),
        "span_us": _us(drawing, drawing.end_ns),
        "verdicts": dict(drawing.verdict_counts),
        "only": drawing.only,
        "is_part": drawing.is_part,
        "sections": [
            {"id": each.id, "title": each.title, "folded": each.folded} for each in drawing.sections
        ],
        "rows": rows,
        "strings": list(items.strings),
        "items": items.columns,
        "counts": items.counts,
        "kinds": list(items.kinds),
        "curves": curves,
        "arrows": [
            {
                "from": items.marks[arrow.from_seq],
                "to": items.marks[arrow.to_seq],
                "quiet": arrow.quiet,
            }
            for arrow in drawing.arrows
            if arrow.from_seq in items.marks and arrow.to_seq in items.marks
        ],
        "headlines": [
            {
                "severity": each.severity,
                "kind": each.kind,
                "at": _us(drawing, each.ts_ns),
                "seq": each.seq,
                "item": items.at(each.ts_ns, each.seq),
                "text": each.text,
            }
            for each in drawing.headlines
        ],
        "problems": [
            {"at": _us(drawing, ts_ns), "seq": seq, "item": items.at(ts_ns, seq)}
            for ts_ns, seq in drawing.problems
        ],
    }


class _Items:
    """Items of all rows as columns.

    Attributes:
        columns: name -> values, of equal length.
        kinds, strings: text -> the number that stands for it.
        counts: place of an item -> its count, where that is not 1.
        marks: seq -> place of its first mark.
        places: seq -> places of its items, each with its begin.
    """

    def __init__(self, drawing: Drawing) -> None:
        self._drawing = drawing
        self.columns: dict[str, list[int]] = {name: [] for name in _COLUMNS}
        self.kinds: dict[str, int] = {}
        self.strings: dict[str, int] = {"": 0}
        self.counts: dict[int, int] = {}
        self.marks: dict[int, int] = {}
        self.places: dict[int, list[tuple[int, int]]] = {}

    def add(self, number: int, row: Row) -> None:
        """Items of one row, by time."""
        previous_us = 0
        for item in sorted(row.items, key=lambda item: (item.start_ns, item.seq)):
            place = len(self.columns["row"])
            if item.seq and item.end_ns == item.start_ns:
                self.marks.setdefault(item.seq, place)
            self.places.setdefault(item.seq, []).append((item.start_ns, place))
            if item.count > 1:
                self.counts[place] = item.count
            start_us = _us(self._drawing, item.start_ns)
            values = (
                number,
                self.kinds.setdefault(item.kind, len(self.kinds)),
                start_us - previous_us,
                self._length(item, start_us),
                self.strings.setdefault(item.label, len(self.strings)),
                item.seq,
                _VERDICT_CODES[item.verdict or self._drawing.verdicts.get(item.seq, "match")],
            )
            for name, value in zip(_COLUMNS, values, strict=True):
                self.columns[name].append(value)
            previous_us = start_us

    def at(self, ts_ns: int, seq: int) -> int | None:
        """Place of the record's item that begins nearest to a time, a mark before a bar."""
        found = self.places.get(seq, ())
        nearest = min((abs(start_ns - ts_ns) for start_ns, _ in found), default=0)
        near = [place for start_ns, place in found if abs(start_ns - ts_ns) == nearest]
        mark = self.marks.get(seq)
        return mark if mark in near else min(near, default=None)

    def _length(self, item: Item, start_us: int) -> int:
        return -1 if item.end_ns is None else _us(self._drawing, item.end_ns) - start_us


def _us(drawing: Drawing, ts_ns: int) -> int:
    return (ts_ns - drawing.start_ns) // 1000


def _curve(drawing: Drawing, row: int, curve: Curve) -> dict[str, Any]:
    return {
        "row": row,
        "unit": curve.unit,
        "at": [_us(drawing, ts_ns) for ts_ns, _ in curve.points],
        "value": [value for _, value in curve.points],
        "limits": [
            {
                "label": each.label,
                "value": each.value,
                "from": _us(drawing, each.from_ns),
                "to": None if each.to_ns is None else _us(drawing, each.to_ns),
            }
            for each in curve.limits
        ],
    }


_SCRIPTS = ("text.js", "model.js", "surface.js", "draw.js", "view.js", "pane.js")
"""In the order in which they use one another."""
_LIVE = "live.js"
_LAST = "main.js"
_FORMAT = 1


def write_page(
    drawings: Sequence[Drawing], blocks: Sequence[Iterable[Block]], stream: TextIO
) -> None:
    """Write the page of one or several nodes.

    Args:
        drawings: (n,) one a node.
        blocks: (n,) of each, its records; taken one after the other.
        stream: where to, as UTF-8.
    """
    before, after = page_text(payload_of(drawings)).split(_BLOCKS)
    stream.write(before)
    for node, each in enumerate(blocks):
        for block in each:
            stream.write(
                f'<script type="application/gzip" class="records" data-node="{node}"'
                f' data-first="{block.first_seq}" data-last="{block.last_seq}">'
                f"{block.data}</script>\n"
            )
    stream.write(after)


_BLOCKS = "<!-- records -->"


def payload_of(drawings: Sequence[Drawing]) -> dict[str, Any]:
    """What the page draws."""
    return {"format": _FORMAT, "nodes": [node_payload(drawing) for drawing in drawings]}


def script_text(*, live: bool = False) -> str:
    """The page's script, whole; with what it asks a server where it has one."""
    return script_of([static_text(name) for name in (*_SCRIPTS, *([_LIVE] if live else []), _LAST)])


def page_text(payload: dict[str, Any] | None, live: dict[str, Any] | None = None) -> str:
    """The page without its records.

    Args:
        payload: what it draws; None: it asks its server.
        live: what it needs to ask its server; None: it has none.
    """
    styles = ("base.css", "page.css", *([] if live is None else ["live.css"]))
    return html_page(
        static_text("page.html"),
        style="".join(map(static_text, styles)),
        script=script_text(live=live is not None),
        connects=live is not None,
        drawing=embedded(payload),
        live=embedded(live),
        blocks=_BLOCKS,
    )


def write_ledger_page(
    ledger: Path,
    stream: TextIO,
    *,
    node: str | None = None,
    scope: Scope | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> None:
    """Write the page of a ledger's nodes.

    Args:
        ledger: its directory.
        stream: where to, as UTF-8.
        node: only this one; None: all.
        scope: what part of their histories.
        report: called with what is done next; of a long ledger each step takes long.

    Raises:
        BadQuestionError: no such node, no record, pods that no record is about, or a span that
            ends before it begins.
    """
    scope = scope or Scope()
    if scope.from_ns is not None and scope.to_ns is not None and scope.from_ns > scope.to_ns:
        raise BadQuestionError("the span ends before it begins", advice="exchange its two times")
    histories = histories_of_ledger(Ledger.open(ledger), node)
    with connect(ledger) as queryable:
        report("reading and verifying the records")
        views = [NodeView(queryable, each.node, scope, each) for each in histories]
        report("drawing")
        drawings = [build_drawing(view) for view in views]
        drawn = {section.id for drawing in drawings for section in drawing.sections}
        if scope.pods and not drawn & {"problems", "pods"}:
            raise BadQuestionError(
                f"nothing to draw of {', '.join(scope.pods)}",
                advice="`kubeledger get pods` lists the names; a pod may lie outside the span",
            )
        report("writing the records")
        write_page(drawings, [blocks(view) for view in views], stream)
