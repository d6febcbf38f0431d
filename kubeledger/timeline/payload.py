"""A drawing as columns, for the page; docs/timeline.md describes them."""

from __future__ import annotations

from typing import Any

from kubeledger.timeline.drawing import Curve, Drawing, Item, Row

__all__ = ["node_payload"]

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
                "text": each.text,
            }
            for each in drawing.headlines
        ],
    }


class _Items:
    """Items of all rows as columns.

    Attributes:
        columns: name -> values, of equal length.
        kinds, strings: text -> the number that stands for it.
        counts: place of an item -> its count, where that is not 1.
        marks: seq -> place of its first mark.
    """

    def __init__(self, drawing: Drawing) -> None:
        self._drawing = drawing
        self.columns: dict[str, list[int]] = {name: [] for name in _COLUMNS}
        self.kinds: dict[str, int] = {}
        self.strings: dict[str, int] = {"": 0}
        self.counts: dict[int, int] = {}
        self.marks: dict[int, int] = {}

    def add(self, number: int, row: Row) -> None:
        """Items of one row, by time."""
        previous_us = 0
        for item in sorted(row.items, key=lambda item: (item.start_ns, item.seq)):
            place = len(self.columns["row"])
            if item.seq and item.end_ns == item.start_ns:
                self.marks.setdefault(item.seq, place)
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
