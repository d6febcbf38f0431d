"""From the views of a ledger to one node's drawing."""

from __future__ import annotations

from collections import Counter

from kubeledger.headlines import headlines, incidents
from kubeledger.query.api import Queryable
from kubeledger.timeline.ask import NodeView
from kubeledger.timeline.drawing import Drawing, Section, with_rows
from kubeledger.timeline.rows_node import node_section
from kubeledger.timeline.rows_pods import pod_sections
from kubeledger.timeline.rows_resources import resource_sections

__all__ = ["build_drawing"]


def build_drawing(queryable: Queryable, node: str) -> Drawing:
    """Draw one node's history.

    Args:
        queryable: the ledger's views; the node is verified.
        node: whose.

    Raises:
        BadQuestionError: a query takes too long.
        DamagedLedgerError: the ledger cannot be read.
    """
    view = NodeView(queryable, node)
    verdict_counts: Counter[str] = Counter()
    verdicts: dict[int, str] = {}
    for row in view("SELECT decision_seq, verdict FROM verdicts WHERE node = $node"):
        verdict_counts[row["verdict"]] += 1
        if row["verdict"] != "match":
            verdicts[row["decision_seq"]] = row["verdict"]
    pods, arrows = pod_sections(view, verdicts)
    sections = with_rows([node_section(view), *pods, *resource_sections(view)])
    start_ns, end_ns = _span(view, sections)
    versions = view(
        "SELECT kubelet_version AS version FROM kubelet_starts"
        " WHERE node = $node AND kubelet_version IS NOT NULL GROUP BY ALL ORDER BY min(seq)"
    )
    return Drawing(
        node=node,
        versions=[row["version"] for row in versions],
        start_ns=start_ns,
        end_ns=end_ns,
        verdict_counts={
            each: verdict_counts[each]
            for each in ("match", "admissible", "impossible", "unverifiable")
        },
        verdicts=verdicts,
        sections=sections,
        arrows=arrows,
        headlines=headlines(incidents(view, node, verdicts=True)),
    )


def _span(view: NodeView, sections: list[Section]) -> tuple[int, int]:
    """From the first to the last time of the node's records, and of what is drawn."""
    (row,) = view(
        "SELECT min(ts_ns) AS first_ns, max(ts_ns) AS last_ns FROM events"
        " WHERE node = $node AND role = 'decision' OR kind IN ('node.KubeletStarted')"
    )
    times = [
        time
        for section in sections
        for each in section.rows
        for item in each.items
        for time in (item.start_ns, item.end_ns)
        if time is not None
    ]
    times += [time for time in (row["first_ns"], row["last_ns"]) if time is not None]
    return min(times, default=0), max(times, default=0)
