"""The HTML file: style, script, drawings and records in one page that makes no request."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from importlib.resources import files
from itertools import chain, islice
from pathlib import Path
from string import Template
from typing import Any, TextIO

import msgspec

from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.analyze.sql.api import connect
from kubeledger.analyze.summaries import subject_of, summary_of
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import format_ts
from kubeledger.timeline.build import build_drawing
from kubeledger.timeline.drawing import Curve, Drawing, Item, NodeView, Row, Scope, ViewRow

_HERE = __package__ or ""


def html_page(
    template: str, *, style: str, script: str, connects: bool = False, **parts: str
) -> str:
    """A page with its Content-Security-Policy.

    Args:
        template: with places for ``policy``, ``style``, ``script`` and the other parts.
        style: the only one that browsers take.
        script: the only one that they run.
        connects: whether it may ask the server that sent it.
        **parts: text of the places; data by :func:`embedded`.
    """
    policy = [
        "default-src 'none'",
        f"script-src '{_digest(script)}'",
        f"style-src '{_digest(style)}'",
        "img-src data:",
        "connect-src 'self'" if connects else "connect-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return Template(template).substitute(
        policy="; ".join(policy), style=style, script=script, **parts
    )


def script_of(texts: list[str]) -> str:
    """Scripts that use one another, as one of which nothing shows outside."""
    return f'"use strict";\n(() => {{\n{"".join(texts)}}})();\n'


def static_text(name: str, package: str = _HERE) -> str:
    """A file of a package's directory ``static``."""
    return (files(package) / "static" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def embedded(value: object) -> str:
    """JSON that cannot end the element it stands in, whatever names it holds."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


# Records of a node in blocks of gzip: the page opens a block when one of its records is asked.

BLOCK_RECORDS = 1000
_TEXT_MAX = 4000
"""Characters of one piece of evidence; `kubeledger show` has the rest."""
_LINKS_MAX = 20

_RECORDS = f"""
WITH pieces AS (
    SELECT seq,
        list({{file: source_file, line: source_line, text: left(text, {_TEXT_MAX})}}) AS told
    FROM evidence WHERE node = $node AND seq BETWEEN $first_seq AND $last_seq GROUP BY seq
), led_to AS (
    SELECT cause_seq AS seq, list({{seq: seq, ts_ns: ts_ns, kind: kind}} ORDER BY seq) AS effects
    FROM events WHERE node = $node AND cause_seq BETWEEN $first_seq AND $last_seq GROUP BY ALL
)
SELECT record.seq, record.ts_ns AS time, record.kind, record.role, record.body AS about,
    NULL AS summary, verdict, coalesce(inferred, false) AS inferred, why, rule,
    if(cause.seq IS NULL, NULL, [{{seq: cause.seq, ts_ns: cause.ts_ns, kind: cause.kind}}])
        AS cause, effects, told AS evidence, missing
FROM events AS record
LEFT JOIN events AS cause ON cause.node = record.node AND cause.seq = record.cause_seq
LEFT JOIN verdicts ON verdicts.node = record.node AND decision_seq = record.seq
LEFT JOIN pieces ON pieces.seq = record.seq
LEFT JOIN led_to ON led_to.seq = record.seq
WHERE record.node = $node AND record.seq BETWEEN $first_seq AND $last_seq
    AND record.ts_ns BETWEEN $from_ns AND $to_ns
ORDER BY record.seq"""

_body_of = msgspec.json.Decoder(dict[str, Any]).decode
_ASKED_RECORDS = 1 << 16
"""So many are in memory at once."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Records of one node that are opened together.

    Attributes:
        first_seq, last_seq: numbers of its first and its last record.
        data: base64 of gzip of a JSON list.
    """

    first_seq: int
    last_seq: int
    data: str


def blocks(view: NodeView) -> Iterator[Block]:
    """All records of the node in the scope's span, a block after the other."""
    (end,) = view("SELECT max(seq) AS seq FROM events WHERE node = $node")
    begins = range(1, (end["seq"] or 0) + 1, _ASKED_RECORDS)
    records = chain.from_iterable(
        records_between(view, begin, begin + _ASKED_RECORDS - 1) for begin in begins
    )
    while batch := list(islice(records, BLOCK_RECORDS)):
        packed = gzip.compress(msgspec.json.encode(batch), mtime=0)
        yield Block(
            first_seq=batch[0]["seq"], last_seq=batch[-1]["seq"], data=b64encode(packed).decode()
        )


def records_between(view: NodeView, first_seq: int, last_seq: int) -> Iterator[ViewRow]:
    """Records with these numbers as the side pane shows them."""
    from_ns, to_ns = view.scope.between
    rows = view.stream(
        _RECORDS, {"first_seq": first_seq, "last_seq": last_seq, "from_ns": from_ns, "to_ns": to_ns}
    )
    return map(_told, rows)


def _told(record: ViewRow) -> ViewRow:
    """A record in the words of the side pane, in the order of its row."""
    body, missing = _body_of(record["about"]), record.pop("missing")
    record["time"] = format_ts(record["time"])
    record["about"], record["summary"] = subject_of(body), summary_of(record["kind"], body)
    if missing:
        record["why"] = f"{record['why']}. Missing: {', '.join(missing)}."
    for which in ("cause", "effects"):
        record[which] = _links(record[which]) if record[which] else []
    record["evidence"] = record["evidence"] or []
    return record


def _links(others: Sequence[ViewRow]) -> list[ViewRow]:
    return [
        {"seq": each["seq"], "text": f"{each['kind']} at {format_ts(each['ts_ns'])[11:23]}"}
        for each in others[:_LINKS_MAX]
    ]


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
            shown = {name: getattr(row, name) for name in ("label", "note", "depth", "shape")}
            rows.append({"section": index, **shown})
    marks = items.marks
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
            {"from": marks[arrow.from_seq], "to": marks[arrow.to_seq], "quiet": arrow.quiet}
            for arrow in drawing.arrows
            if {arrow.from_seq, arrow.to_seq} <= marks.keys()
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
