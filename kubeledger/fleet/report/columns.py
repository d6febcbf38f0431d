"""The counts of the fleet's page: what they are, and which stand out against others of a pool."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Literal, NamedTuple

import msgspec

from kubeledger.analyze.problems.table import PROBLEMS as PROBLEMS_OF_NODES

# What stands out on a node against the others of its pool: robust statistics of counts.
#
# A count is compared by what it is a count of: problems by hours of records, lines that were not
# understood by lines, verdicts by decisions. Of the pool's rates the median and the MAD (median of
# the absolute deviations from it, times 1.4826, which is the standard deviation of normal values)
# are taken, for which up to half of the nodes may be as odd as they like. A node's expected count
# is
# the median rate times its own exposure. Its spread is the MAD times the exposure, but at least the
# square root of the expected count (that of rare events that come by chance), and at least 1.

POOL_MIN = 5
"""Of fewer nodes nothing is said: half of four is two."""
SCORE_MIN = 4.0
"""Spreads above what is expected."""
EXCESS_MIN = 3
"""Events above what is expected: one or two are an accident."""

_SIGMA_OF_MAD = 1.4826


class Outstanding(msgspec.Struct, frozen=True):
    """A count that is far above what the pool lets expect.

    Attributes:
        expected: count, by the pool's median rate.
        score: spreads above it.
    """

    expected: float
    score: float


def outstanding(counts: Sequence[int], exposures: Sequence[float]) -> list[Outstanding | None]:
    """Compare the nodes of one pool.

    Args:
        counts: (n,) of one thing on each node.
        exposures: (n,) in what it is counted: hours, lines, decisions; a node with 0 is left out.

    Returns:
        (n,) of each node, None where it does not stand out, or nothing can be said.
    """
    rates = [count / size for count, size in zip(counts, exposures, strict=True) if size > 0]
    if len(rates) < POOL_MIN:
        return [None] * len(counts)
    usual = median(rates)
    spread = _SIGMA_OF_MAD * median(abs(rate - usual) for rate in rates)
    return [_one(*each, usual, spread) for each in zip(counts, exposures, strict=True)]


def _one(count: int, exposure: float, usual: float, spread: float) -> Outstanding | None:
    expected = usual * exposure
    score = (count - expected) / max(spread * exposure, math.sqrt(expected), 1.0)
    if exposure <= 0 or score < SCORE_MIN or count - expected < EXCESS_MIN:
        return None
    return Outstanding(expected, score)


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
_NAMED = ("impossible", "kubelet_died", "evicted", "oom", "killed", "preempted", "refused", "stuck",
          "crashed")  # fmt: skip
"""Kinds that have a column of their own."""
_OTHERS = tuple(
    problem.kind
    for problem in PROBLEMS_OF_NODES
    if problem.severity >= SEVERITY_MIN and problem.kind not in _NAMED
)
_MINUTES_NOT_READY = """SELECT node, ceil(sum(epoch(coalesce(until_ts, ts) - ts)) / 60)::BIGINT
        FROM node_conditions WHERE condition = 'Ready' AND status <> 'True' GROUP BY node"""

COLUMNS = (
    Column("impossible", "impossible",
           "decisions that no kubelet of the node's version could have taken", per="decision"),
    Column("contradictions", "contra- dictions",
           "where two sources of the node say different things", per="decision"),
    Column("kubelet_deaths", "kubelet deaths",
           "kubelets that ended otherwise than by being stopped", kinds=("kubelet_died",)),
    Column("evictions", "evictions", "pods evicted because the node ran short, or over their own"
           " storage limit; each once", kinds=("evicted",)),
    Column("oom_kills", "OOM kills",
           "processes that the kernel killed because memory ran out", kinds=("oom",)),
    Column("probe_kills", "probe kills", "containers killed by a probe, or because their"
           " post-start hook failed", kinds=("killed",)),
    Column("preempted", "pre- empted",
           "pods that had to make room for critical ones", kinds=("preempted",)),
    Column("refused", "refused", "pods that the kubelet did not admit", kinds=("refused",)),
    Column("stuck", "stuck", "times that a pod was stuck before its start: image, volume, sandbox,"
           " secret and the like", kinds=("stuck",)),
    Column("crashes", "crash loops",
           "times that a container failed again and again by itself", kinds=("crashed",)),
    Column("other_problems", "other problems",
           "times not ready, troubles of the node, pods that waited or did not end, failed image"
           " GC, lost readiness, pressure, resizes that do not fit", kinds=_OTHERS),
    Column("not_ready_min", "minutes not ready", "minutes in which the node was not ready, as far"
           " as its kubelet says", minutes=_MINUTES_NOT_READY),
    Column("shutdowns", "shut- downs",
           "shutdowns and reboots of the node", kinds=("shutdown", "rebooted")),
    Column("restarts", "restarts",
           "containers started again, whatever ended them", record="lifecycle.ContainerRestarted"),
    Column("deletions", "image deletions",
           "images that the kubelet removed", record="images.ImageDeleted"),
    Column("kubelet_restarts", "kubelet restarts",
           "kubelets that began after another one", kinds=("kubelet_restarted",)),
    Column("unverifiable", "unverifi- able", "decisions with missing inputs", per="decision"),
    Column("lines_not_understood", "lines not understood",
           "lines of the logs that no importer knows", per="line"),
)  # fmt: skip
"""In the order of the page."""

PROBLEMS = tuple(column.id for column in COLUMNS if column.is_problem)
"""What is drawn by the hour, and added up for the order; a decision that is impossible as well."""
