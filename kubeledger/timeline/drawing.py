"""What a page draws of one node: sections of rows, rows of items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kubeledger.analyze.headlines import Headline


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A bar or a mark.

    Attributes:
        kind: what it is; docs/internals/timeline.md lists the kinds.
        start_ns: when it begins.
        end_ns: when it ends; None: still continuing at the end of the drawing; of a mark its start.
        label: what a bar shows in itself, a mark when it is pointed at.
        seq: the record to open; 0: none.
        count: of probe ticks, how many the item stands for, from start to end.
        verdict: of the item itself, where it is not that of its record.
    """

    kind: str
    start_ns: int
    end_ns: int | None
    label: str = ""
    seq: int = 0
    count: int = 1
    verdict: str = ""


class Row(msgspec.Struct, kw_only=True):
    """A row with its items.

    Attributes:
        label: its name.
        note: what stands after the name.
        depth: how far it is indented.
        shape: ``lane``, ``ticks`` or ``curve``.
    """

    label: str
    note: str = ""
    depth: int = 0
    shape: str = "lane"
    items: list[Item] = msgspec.field(default_factory=list)
    curve: Curve | None = None

    def mark(self, kind: str, ts_ns: int, label: str = "", seq: int = 0, verdict: str = "") -> None:
        """Add an instant."""
        self.items.append(
            Item(kind=kind, start_ns=ts_ns, end_ns=ts_ns, label=label, seq=seq, verdict=verdict)
        )

    def bar(
        self, kind: str, start_ns: int, end_ns: int | None, label: str = "", seq: int = 0
    ) -> None:
        """Add something that lasts."""
        end_ns = None if end_ns is None else max(start_ns, end_ns)
        self.items.append(Item(kind=kind, start_ns=start_ns, end_ns=end_ns, label=label, seq=seq))


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """A line across a curve, as long as the threshold was in force.

    Attributes:
        label: what it is.
        value: in the curve's unit.
        from_ns: since when.
        to_ns: until when; None: to the end of the drawing.
    """

    label: str
    value: float
    from_ns: int
    to_ns: int | None


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
    """From the mark of one record to that of another: who was preempted or evicted for what.

    Attributes:
        from_seq, to_seq: the two records.
        quiet: it shows only while one of the two is selected.
    """

    from_seq: int
    to_seq: int
    quiet: bool = False


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
        only: pods that were asked for, as they were named; empty: all.
        is_part: not all of the node's history is drawn.
        verdict_counts: verdict -> number of decisions, of those that are drawn; those that an
            import inferred are counted apart, as ``inferred``.
        verdicts: seq -> verdict, for those that are no match.
        sections: those with rows.
        arrows: between marks.
        headlines: what went wrong, worst first.
        problems: the same one by one, as (time, record), in the order of time.
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
    problems: Sequence[tuple[int, int]] = ()
    only: str = ""
    is_part: bool = False
