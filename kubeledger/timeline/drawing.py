"""What a page draws of one node, sections of rows of items; and the questions that fill them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from kubeledger.analyze.headlines import Headline
from kubeledger.analyze.histories.history import History
from kubeledger.analyze.problems.told import Told, told_by, whole_us
from kubeledger.analyze.sql.api import Queryable
from kubeledger.analyze.sql.rows import Rows
from kubeledger.analyze.sql.views import load_views
from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.bodies.node import ErrorsLogged

ViewRow = dict[str, Any]

_OF_PODS = frozenset(
    {
        "admissions",
        "claims",
        "container_kills",
        "container_restarts",
        "container_states",
        "cpu_assignments",
        "device_allocations",
        "evictions",
        "image_pulls",
        "oom_kills",
        "pod_stages",
        "probe_tick_runs",
        "probe_transitions",
        "resizes",
        "restart_backoffs",
    }
)
"""Views whose rows are about a pod each."""
_POD = "{1} IN $pods OR {0} || '/' || {1} IN $pods OR {2} IN $pods"
_PODS = _POD.format("namespace", "pod", "pod_uid")
_ABOUT = {
    **dict.fromkeys(_OF_PODS, _PODS),
    "events": f"coalesce(pod, namespace, pod_uid) IS NULL OR {_PODS}",
    "kubernetes_events": f"object_kind <> 'Pod' OR {_POD.format('namespace', 'name', 'uid')}",
    "preemptions": " OR ".join(
        _POD.format(f"{who}_namespace", f"{who}_pod", f"{who}_uid")
        for who in ("victim", "preemptor")
    ),
    "verdicts": "seq IN (SELECT seq FROM events UNION ALL SELECT seq FROM preemptions)",
}
"""View -> which of its rows are about certain pods, or about the node itself."""
_NEEDED = "events, evidence, verdicts, pod_stages, node_conditions, node_troubles"
"""Views that between them need all that a page does."""
_NAMED = re.compile(r"\b(?:FROM|JOIN) ([a-z_]+)")
_ALL = (1 << 63) - 1


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What part of a node's history is asked for.

    Attributes:
        pods: ``NAME``, ``NAMESPACE/NAME`` or UID, only these; empty: all.
        from_ns, to_ns: only what touches this span; None: from the beginning, to the end.
    """

    pods: Sequence[str] = ()
    from_ns: int | None = None
    to_ns: int | None = None

    @property
    def is_all(self) -> bool:
        """Whether it is the whole history."""
        return not self.pods and self.from_ns is None and self.to_ns is None

    @property
    def between(self) -> tuple[int, int]:
        """The span's first and last time, those that 64 bits hold where it has none."""
        return (
            -_ALL if self.from_ns is None else self.from_ns,
            _ALL if self.to_ns is None else self.to_ns,
        )

    def touches(self, start_ns: int, end_ns: int | None) -> bool:
        """Whether something lies in the span, at least in part."""
        begins = self.to_ns is None or start_ns <= self.to_ns
        return begins and (self.from_ns is None or end_ns is None or end_ns >= self.from_ns)

    def names(self, namespace: str | None, pod: str | None, uid: str | None) -> bool:
        """Whether this pod is asked for."""
        return not self.pods or not {pod, uid, f"{namespace}/{pod}"}.isdisjoint(self.pods)


class NodeView:
    """The views of a ledger, of one node.

    Attributes:
        scope: what part of its history.
        history: the records themselves, for what no view shows: what went wrong, and holes in the
            log; None: neither is looked for.
    """

    def __init__(
        self,
        queryable: Queryable,
        node: str,
        scope: Scope | None = None,
        history: History | None = None,
    ) -> None:
        self._queryable = queryable
        self.node = node
        self.scope = scope or Scope()
        self.history = history
        # One question that needs all there is: a wider question later would load everything again.
        queryable.sql(f"SELECT 1 FROM {_NEEDED} LIMIT 0").fetchall()

    def __call__(self, query: str, params: Mapping[str, object] | None = None) -> list[ViewRow]:
        """Rows of a query; ``$node`` is the node."""
        return list(self.stream(query, params))

    def stream(self, query: str, params: Mapping[str, object] | None = None) -> Iterator[ViewRow]:
        """Rows of a query, taken one after the other."""
        return _named(self.tuples(query, params))

    def tuples(self, query: str, params: Mapping[str, object] | None = None) -> Rows:
        """As :meth:`stream`, of a query that names its columns in the order in which they come."""
        return self._queryable.sql(query, {"node": self.node, **(params or {})})

    def in_scope(self, query: str, params: Mapping[str, object] | None = None) -> list[ViewRow]:
        """Rows of a query that sees of each view what lies in the scope.

        Decisions are those about the scope's pods, preemptions for them, and those about no pod;
        other rows that are about no pod are all there. All of it within the scope's span.
        """
        if self.scope.is_all:
            return self(query, params)
        named = dict.fromkeys(["events", "preemptions", *_NAMED.findall(query)])
        views = ", ".join(
            f"{view} AS (SELECT * FROM {view} WHERE node = $node"
            f" AND epoch_ns(ts) BETWEEN $from_ns AND $to_ns"
            f" AND ({_ABOUT.get(view, 'true') if self.scope.pods else 'true'}))"
            for view in named
        )
        from_ns, to_ns = self.scope.between
        return self(
            f"WITH {views} {query}",
            {
                **(params or {}),
                # The views' times are cut to microseconds.
                "from_ns": from_ns // 1000 * 1000,
                "to_ns": to_ns,
                **({"pods": list(self.scope.pods)} if self.scope.pods else {}),
            },
        )

    def told(self) -> Told:
        """What the records tell of what went wrong, as far as it lies in the scope."""
        told = told_by(self.history) if self.history else Told(0)
        return told if self.scope.is_all else told.within(self._shows)

    def _shows(self, each: Any) -> bool:  # noqa: ANN401 # a record or an episode
        from_ns, to_ns = self.scope.between
        if not whole_us(from_ns) <= whole_us(each.ts_ns) <= to_ns:
            return False
        body = getattr(each, "body", each)
        if isinstance(body, PodPreempted):
            victim = (body.victim_namespace, body.victim_pod, body.victim_uid)
            for_whom = (body.preemptor_namespace, body.preemptor_pod, body.preemptor_uid)
            return self.scope.names(*victim) or self.scope.names(*for_whom)
        is_of_pod = getattr(body, "object_kind", "Pod") == "Pod" and hasattr(body, "pod_uid")
        if not is_of_pod or isinstance(body, (FindingReported, ErrorsLogged)):
            return True
        named = (body.namespace, body.pod, body.pod_uid)
        return named == (None, None, None) or self.scope.names(*named)

    def rows(self, view: str, columns: str = "*", where: str = "true") -> list[ViewRow]:
        """Rows of a view in the order of their time, ``ts_ns`` for ``ts``; of the scope's pods."""
        return list(self.each(view, columns, where))

    def each(self, view: str, columns: str = "*", where: str = "true") -> Iterator[ViewRow]:
        """As :meth:`rows`, taken one after the other; none of a view whose kinds are not there."""
        kinds = load_views()[view].kinds
        if kinds and kinds.isdisjoint(self._kinds):
            return iter(())
        return _named(self.ordered(view, columns, where))

    @cached_property
    def _kinds(self) -> frozenset[str]:
        rows = self.tuples("SELECT DISTINCT kind FROM events WHERE node = $node")
        return frozenset(kind for (kind,) in rows)

    def ordered(self, view: str, columns: str, where: str = "true") -> Rows:
        """As :meth:`each`, of columns as they come, ``seq`` and ``ts_ns`` last."""
        of_pods = view in _OF_PODS and self.scope.pods
        return self.tuples(
            f"SELECT {columns}, seq, epoch_ns(ts) AS ts_ns FROM {view}"
            f" WHERE node = $node AND ({where}) AND ({_PODS if of_pods else 'true'})"
            " ORDER BY ts, seq",
            {"pods": list(self.scope.pods)} if of_pods else None,
        )


def _named(rows: Rows) -> Iterator[ViewRow]:
    return (dict(zip(rows.columns, row, strict=True)) for row in rows)


class Item(msgspec.Struct, frozen=True):
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
        self.items.append(Item(kind, ts_ns, ts_ns, label, seq, verdict=verdict))

    def bar(
        self, kind: str, start_ns: int, end_ns: int | None, label: str = "", seq: int = 0
    ) -> None:
        """Add something that lasts."""
        end_ns = None if end_ns is None else max(start_ns, end_ns)
        self.items.append(Item(kind, start_ns, end_ns, label, seq))


class Limit(msgspec.Struct, frozen=True):
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


class Curve(msgspec.Struct, frozen=True):
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
        folded: only the heading shows at first.
    """

    id: str
    title: str
    rows: list[Row]
    folded: bool = False


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """One node's drawing.

    Attributes:
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
