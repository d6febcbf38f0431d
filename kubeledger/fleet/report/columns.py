"""The counts of the fleet's page: what they are, of which records, and against what compared."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["COLUMNS", "PROBLEMS", "Column"]


class Column(NamedTuple):
    """A count of each node.

    Attributes:
        id: as the payload calls it.
        title: head of the column.
        doc: what is counted, for the reader of the page.
        per: what it is compared by: hours of records, lines of logs, or decisions.
        kind: of the records that are counted; None: a column of the view ``nodes``.
        when: condition on such a record's ``body``.
        is_problem: it is part of the problems an hour.
    """

    id: str
    title: str
    doc: str
    per: Literal["hour", "line", "decision"] = "hour"
    kind: str | None = None
    when: str = "true"
    is_problem: bool = False


COLUMNS = (
    Column(
        "impossible",
        "impossible",
        "decisions that no kubelet of the node's version could have taken",
        per="decision",
    ),
    Column(
        "contradictions",
        "contra- dictions",
        "where two sources of the node say different things",
        per="decision",
    ),
    Column(
        "kubelet_deaths",
        "kubelet deaths",
        "kubelets that ended otherwise than by being stopped",
        kind="node.KubeletExited",
        when="body ->> 'reason' <> 'stopped'",
        is_problem=True,
    ),
    Column(
        "evictions",
        "evictions",
        "pods evicted because the node ran short, or over their own storage limit",
        kind="lifecycle.PodEvicted",
        when="(body ->> 'evicted') IS DISTINCT FROM 'false'",
        is_problem=True,
    ),
    Column(
        "oom_kills",
        "OOM kills",
        "processes that the kernel killed because memory ran out",
        kind="oom.ProcessKilled",
        is_problem=True,
    ),
    Column(
        "probe_kills",
        "probe kills",
        "containers killed by a liveness or startup probe",
        kind="lifecycle.ContainerKilled",
        when="body ->> 'reason' IN ('liveness_probe', 'startup_probe')",
        is_problem=True,
    ),
    Column(
        "preempted",
        "pre- empted",
        "pods that had to make room for critical ones",
        kind="preemption.PodPreempted",
        when="(body ->> 'evicted') IS DISTINCT FROM 'false'",
        is_problem=True,
    ),
    Column(
        "refused",
        "refused",
        "pods that the kubelet did not admit",
        kind="lifecycle.PodRejected",
        is_problem=True,
    ),
    Column(
        "restarts",
        "restarts",
        "containers started again, whatever ended them",
        kind="lifecycle.ContainerRestarted",
    ),
    Column(
        "deletions",
        "image deletions",
        "images that the kubelet removed",
        kind="images.ImageDeleted",
    ),
    Column(
        "kubelet_restarts",
        "kubelet restarts",
        "kubelets that began after another one",
        kind="node.KubeletStarted",
        when="(body ->> 'restart') = 'true'",
    ),
    Column(
        "unverifiable",
        "unverifi- able",
        "decisions with missing inputs",
        per="decision",
    ),
    Column(
        "lines_not_understood",
        "lines not understood",
        "lines of the logs that no importer knows",
        per="line",
    ),
)
"""In the order of the page."""

PROBLEMS = tuple(column.id for column in COLUMNS if column.is_problem)
"""What is drawn by the hour, and added up for the order; a decision that is impossible as well."""
