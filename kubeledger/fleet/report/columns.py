"""The counts of the fleet's page: what they are, of which records, and against what compared."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kubeledger.analyze.problems.table import PROBLEMS as PROBLEMS_OF_NODES


class Column(NamedTuple):
    """A count of each node.

    Attributes:
        id: as the payload calls it.
        title: head of the column.
        doc: what is counted, for the reader of the page.
        per: what it is compared by: hours of records, lines of logs, or decisions.
        kinds: what is counted, of ``kubeledger.analyze.problems``; none: a column of ``nodes``.
        record: kind of the records that are counted instead.
        minutes: a query for what is counted instead, by node.
    """

    id: str
    title: str
    doc: str
    per: Literal["hour", "line", "decision"] = "hour"
    kinds: tuple[str, ...] = ()
    record: str | None = None
    minutes: str | None = None

    @property
    def is_problem(self) -> bool:
        """It is part of the problems an hour; an impossible decision is counted by itself."""
        return any(_SEVERITIES[kind] >= SEVERITY_MIN for kind in self.kinds)


SEVERITY_MIN = 2
"""Of what is a problem of a node."""
_SEVERITIES = {problem.kind: problem.severity for problem in PROBLEMS_OF_NODES}
_IN_COLUMNS = frozenset(
    {
        *("impossible", "kubelet_died", "evicted", "oom", "killed", "preempted", "refused"),
        *("stuck", "crashed"),
    }
)

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
        kinds=("kubelet_died",),
    ),
    Column(
        "evictions",
        "evictions",
        "pods evicted because the node ran short, or over their own storage limit; each once",
        kinds=("evicted",),
    ),
    Column(
        "oom_kills",
        "OOM kills",
        "processes that the kernel killed because memory ran out",
        kinds=("oom",),
    ),
    Column(
        "probe_kills",
        "probe kills",
        "containers killed by a probe, or because their post-start hook failed",
        kinds=("killed",),
    ),
    Column(
        "preempted",
        "pre- empted",
        "pods that had to make room for critical ones",
        kinds=("preempted",),
    ),
    Column(
        "refused",
        "refused",
        "pods that the kubelet did not admit",
        kinds=("refused",),
    ),
    Column(
        "stuck",
        "stuck",
        "times that a pod was stuck before its start: image, volume, sandbox, secret and the like",
        kinds=("stuck",),
    ),
    Column(
        "crashes",
        "crash loops",
        "times that a container failed again and again by itself",
        kinds=("crashed",),
    ),
    Column(
        "other_problems",
        "other problems",
        "times not ready, troubles of the node, pods that waited or did not end, failed image GC,"
        " lost readiness, pressure, resizes that do not fit",
        kinds=tuple(
            problem.kind
            for problem in PROBLEMS_OF_NODES
            if problem.severity >= SEVERITY_MIN and problem.kind not in _IN_COLUMNS
        ),
    ),
    Column(
        "not_ready_min",
        "minutes not ready",
        "minutes in which the node was not ready, as far as its kubelet says",
        minutes="""SELECT node, ceil(sum(epoch(coalesce(until_ts, ts) - ts)) / 60)::BIGINT
        FROM node_conditions WHERE condition = 'Ready' AND status <> 'True' GROUP BY node""",
    ),
    Column(
        "shutdowns",
        "shut- downs",
        "shutdowns and reboots of the node",
        kinds=("shutdown", "rebooted"),
    ),
    Column(
        "restarts",
        "restarts",
        "containers started again, whatever ended them",
        record="lifecycle.ContainerRestarted",
    ),
    Column(
        "deletions",
        "image deletions",
        "images that the kubelet removed",
        record="images.ImageDeleted",
    ),
    Column(
        "kubelet_restarts",
        "kubelet restarts",
        "kubelets that began after another one",
        kinds=("kubelet_restarted",),
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
