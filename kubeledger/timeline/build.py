"""From the views of a ledger to one node's drawing."""

from __future__ import annotations

from collections.abc import Sequence

from kubeledger.analyze.headlines import headlines, incidents
from kubeledger.analyze.problems.table import occurrences
from kubeledger.timeline.drawing import Drawing, NodeView, Row, Scope, Section
from kubeledger.timeline.rows_node import decisions_row, node_section
from kubeledger.timeline.rows_pods import pod_sections
from kubeledger.timeline.rows_resources import resource_sections


def build_drawing(view: NodeView, *, apart: bool = False) -> Drawing:
    """Draw one node's history, or the part of it that the view's scope names.

    Args:
        apart: a pod and its only container have a row each.

    Raises:
        BadQuestionError: a query takes too long.
        DamagedLedgerError: the ledger cannot be read.
    """
    verdicts: dict[int, str] = {
        row["decision_seq"]: row["verdict"]
        for row in view(
            "SELECT decision_seq, verdict FROM verdicts"
            " WHERE node = $node AND verdict <> 'match' AND NOT inferred"
        )
    }
    verdict_counts = {
        row["verdict"]: row["count"]
        for row in view.in_scope(
            "SELECT if(inferred, 'inferred', verdict) AS verdict, count(*) AS count FROM verdicts"
            " WHERE node = $node GROUP BY ALL"
        )
    }
    begin_ns, last_ns = _recorded(view)
    told = view.told()
    impossible = view.in_scope(
        "SELECT kind AS subject, seq, epoch_ns(ts) AS ts_ns FROM verdicts"
        " WHERE node = $node AND verdict = 'impossible' AND NOT inferred"
    )
    problems = [each for each in occurrences(told, impossible) if each[0].severity]
    severities: dict[int, int] = {}
    for problem, row in problems:
        severities[row["seq"]] = max(problem.severity, severities.get(row["seq"], 0))
    pods, arrows = pod_sections(view, severities, begin_ns, apart=apart)
    node = node_section(view)
    others = [*pods, *resource_sections(view)]
    drawn = {item.seq for each in (node, *others) for row in each.rows for item in row.items}
    node.rows.append(decisions_row(view, drawn))
    sections = _in_scope([node, *others], view.scope)
    start_ns, end_ns = _span(view.scope, begin_ns, last_ns, sections)
    found = incidents(told, impossible)
    moments = [(row["ts_ns"], row["seq"]) for _, row in problems]
    moments += [(each.ts_ns, each.seq) for each in found if each.kind == "error"]
    versions = view(
        "SELECT kubelet_version AS version FROM kubelet_starts"
        " WHERE node = $node AND kubelet_version IS NOT NULL GROUP BY ALL ORDER BY min(seq)"
    )
    return Drawing(
        node=view.node,
        versions=[row["version"] for row in versions],
        start_ns=start_ns,
        end_ns=end_ns,
        verdict_counts={
            each: verdict_counts.get(each, 0)
            for each in ("match", "admissible", "impossible", "unverifiable", "inferred")
        },
        only=", ".join(view.scope.pods),
        is_part=not view.scope.is_all,
        verdicts=verdicts,
        sections=sections,
        arrows=arrows,
        headlines=[each for each in headlines(found) if start_ns <= each.ts_ns <= end_ns],
        # What is listed in two ways at one time is one: keys would come back to it for ever.
        problems=sorted({each for each in moments if start_ns <= each[0] <= end_ns}),
    )


def _in_scope(sections: Sequence[Section], scope: Scope) -> list[Section]:
    """Sections with what touches the scope's span; without rows that are empty then."""
    for section in sections:
        for row in section.rows:
            row.items = [each for each in row.items if scope.touches(each.start_ns, each.end_ns)]
        section.rows = _filled(section.rows)
    return [section for section in sections if section.rows]


def _filled(rows: Sequence[Row]) -> list[Row]:
    """Rows with something in them or in what belongs to them: containers of a pod, ticks."""
    kept: list[Row] = []
    for row in reversed(rows):
        owns = kept and (kept[-1].depth > row.depth or kept[-1].shape == "ticks" != row.shape)
        if row.items or row.curve is not None or owns:
            kept.append(row)
    return kept[::-1]


def _recorded(view: NodeView) -> tuple[int, int]:
    """Times of the node's first decision, and of the last thing in its files.

    A start of the kubelet counts as a decision, and the end of an import is dated by the last
    line or file that it read: nothing was decided until then. Cut to microseconds, as the times
    of the views are.
    """
    (row,) = view(
        "SELECT min(ts_ns) AS first_ns, max(ts_ns) AS last_ns FROM events"
        " WHERE node = $node AND (role = 'decision'"
        " OR kind IN ('node.KubeletStarted', 'ledger.ImportCompleted'))"
    )
    return (row["first_ns"] or 0) // 1000 * 1000, (row["last_ns"] or 0) // 1000 * 1000


def _span(
    scope: Scope, begin_ns: int, last_ns: int, sections: Sequence[Section]
) -> tuple[int, int]:
    """The scope's span as far as the node's files and what is drawn fill it.

    What began before all records (statuses show old containers) does not widen it.
    """
    items = [item for section in sections for row in section.rows for item in row.items]
    times = [item.start_ns for item in items]
    times += [item.end_ns for item in items if item.end_ns is not None]
    start_ns = begin_ns or min(times, default=0)
    end_ns = max([last_ns, *times])
    if scope.from_ns is not None:
        start_ns = max(start_ns, scope.from_ns // 1000 * 1000)  # as the views' times are cut
    if scope.to_ns is not None:
        end_ns = min(end_ns, scope.to_ns)
    return start_ns, max(start_ns, end_ns)
