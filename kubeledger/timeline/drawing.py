"""What a page draws of one node: sections of rows, rows of items.

docs/timeline.md describes the payload that is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kubeledger.headlines import Headline

__all__ = ["Arrow", "Curve", "Drawing", "Item", "Limit", "Row", "Section"]

_VERDICT_CODES = {"match": 0, "admissible": 1, "impossible": 2, "unverifiable": 3}


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A bar or a mark.

    Attributes:
        kind: what it is; docs/timeline.md lists the kinds.
        start_ns: when it begins.
        end_ns: when it ends; None: still going on at the end of the drawing; of a mark its start.
        label: what a bar shows in itself, a mark when it is pointed at.
        seq: the record to open; 0: none.
    """

    kind: str
    start_ns: int
    end_ns: int | None
    label: str = ""
    seq: int = 0


class Row(msgspec.Struct, kw_only=True):
    """A row with its items.

    Attributes:
        label: its name.
        note: what stands behind the name.
        depth: how far it is indented.
        shape: ``lane``, ``ticks`` or ``curve``.
    """

    label: str
    note: str = ""
    depth: int = 0
    shape: str = "lane"
    items: list[Item] = msgspec.field(default_factory=list)
    curve: Curve | None = None

    def mark(self, kind: str, ts_ns: int, label: str = "", seq: int = 0) -> None:
        """Add an instant."""
        self.items.append(Item(kind=kind, start_ns=ts_ns, end_ns=ts_ns, label=label, seq=seq))

    def bar(
        self, kind: str, start_ns: int, end_ns: int | None, label: str = "", seq: int = 0
    ) -> None:
        """Add something that lasts."""
        end_ns = None if end_ns is None else max(start_ns, end_ns)
        self.items.append(Item(kind=kind, start_ns=start_ns, end_ns=end_ns, label=label, seq=seq))


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """A line across a curve, in the curve's unit."""

    label: str
    value: float


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """A quantity over time: it keeps each value until the next.

    Attributes:
        unit: of the values, as shown.
        points: (n,) time in nanoseconds and value, in the order of time.
        limits: thresholds.
    """

    unit: str
    points: Sequence[tuple[int, float]]
    limits: Sequence[Limit] = ()


class Arrow(msgspec.Struct, frozen=True, kw_only=True):
    """From the mark of one record to that of another: who was preempted for whom."""

    from_seq: int
    to_seq: int


class Section(msgspec.Struct, kw_only=True):
    """Rows under a heading.

    Attributes:
        id: ``node``, ``problems``, ``pods``, ``devices``, ``cpus``, ``cgroups`` or ``images``.
        title: the heading.
        rows: in the order shown.
        folded: only the heading shows at first.
    """

    id: str
    title: str
    rows: list[Row]
    folded: bool = False


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """One node's drawing.

    Attributes:
        node: its name.
        versions: of its kubelet, in the order they ran.
        start_ns, end_ns: the span that is drawn.
        verdict_counts: verdict -> number of decisions.
        verdicts: seq -> verdict, for those that are no match.
        sections: those with rows.
        arrows: between marks.
        headlines: what went wrong, worst first.
    """

    node: str
    versions: Sequence[str]
    start_ns: int
    end_ns: int
    verdict_counts: Mapping[str, int]
    verdicts: Mapping[int, str]
    sections: Sequence[Section]
    arrows: Sequence[Arrow]
    headlines: Sequence[Headline]

    def payload(self) -> dict[str, Any]:
        """The drawing as columns, for the page."""
        kinds: dict[str, int] = {}
        strings: dict[str, int] = {"": 0}
        columns: dict[str, list[int]] = {name: [] for name in _COLUMNS}
        rows: list[dict[str, Any]] = []
        curves: list[dict[str, Any]] = []
        place: dict[int, int] = {}
        for index, section in enumerate(self.sections):
            for row in section.rows:
                if row.curve is not None:
                    curves.append(self._curve(len(rows), row.curve))
                previous_us = 0
                for item in sorted(row.items, key=lambda item: (item.start_ns, item.seq)):
                    start_us = self._us(item.start_ns)
                    if item.seq and item.end_ns == item.start_ns:
                        place.setdefault(item.seq, len(columns["row"]))
                    values = (
                        len(rows),
                        kinds.setdefault(item.kind, len(kinds)),
                        start_us - previous_us,
                        -1 if item.end_ns is None else self._us(item.end_ns) - start_us,
                        strings.setdefault(item.label, len(strings)),
                        item.seq,
                        _VERDICT_CODES[self.verdicts.get(item.seq, "match")],
                    )
                    for name, value in zip(_COLUMNS, values, strict=True):
                        columns[name].append(value)
                    previous_us = start_us
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
            "node": self.node,
            "versions": list(self.versions),
            "base_ns": str(self.start_ns),
            "span_us": self._us(self.end_ns),
            "verdicts": dict(self.verdict_counts),
            "sections": [
                {"id": each.id, "title": each.title, "folded": each.folded}
                for each in self.sections
            ],
            "rows": rows,
            "strings": list(strings),
            "items": columns,
            "kinds": list(kinds),
            "curves": curves,
            "arrows": [
                {"from": place[arrow.from_seq], "to": place[arrow.to_seq]}
                for arrow in self.arrows
                if arrow.from_seq in place and arrow.to_seq in place
            ],
            "headlines": [
                {
                    "severity": each.severity,
                    "kind": each.kind,
                    "at": self._us(each.ts_ns),
                    "seq": each.seq,
                    "text": each.text,
                }
                for each in self.headlines
            ],
        }

    def _us(self, ts_ns: int) -> int:
        return (ts_ns - self.start_ns) // 1000

    def _curve(self, row: int, curve: Curve) -> dict[str, Any]:
        return {
            "row": row,
            "unit": curve.unit,
            "at": [self._us(ts_ns) for ts_ns, _ in curve.points],
            "value": [value for _, value in curve.points],
            "limits": [{"label": each.label, "value": each.value} for each in curve.limits],
        }


_COLUMNS = ("row", "kind", "start", "length", "label", "seq", "verdict")
