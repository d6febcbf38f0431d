"""The kinds of what goes wrong, in the order of the harm done to the node and its pods.

A kind's ``rows`` are its occurrences, of any node: the page steps through them and a fleet counts
them. Put together by what they have in common they are incidents (``headlines``). Severities:

5. the node takes no pods, or its kubelet does not work as any kubelet would;
4. pods were ended, or never began;
3. containers run with interruptions, or the kubelet cannot do a part of its work;
2. pods waited, or something was short and nobody had to go;
1. what happened to the kubelet in an orderly way, and what the evidence lacks;
0. what is counted and is no problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from kubeledger.analyze.problems import rows, sentences
from kubeledger.analyze.problems.rows import CONTAINER, EPISODES, POD, PODS, of_kind
from kubeledger.analyze.problems.sentences import Row
from kubeledger.analyze.wording import times_text

NEEDED = (
    "events, pod_stages, node_conditions, node_troubles, logged_errors, kubernetes_events,"
    " admissions, violations"
)
"""Views that between them need all that the rows below do."""

PRESENT = f"""SELECT kind AS what FROM events WHERE node = $node
    UNION SELECT stage FROM pod_stages WHERE node = $node
    UNION SELECT 'restart' FROM events
        WHERE node = $node AND (kind = 'node.KubeletExited'
            OR (kind = 'node.KubeletStarted' AND body ->> 'restart' = 'true'))
    UNION SELECT 'open' FROM pod_stages AS s
        WHERE node = $node AND passed_ts IS NULL AND {rows.BEFORE_START}
    UNION SELECT if(condition = 'Ready', 'Ready', 'pressure') FROM node_conditions
        WHERE node = $node AND (status = 'True') <> (condition = 'Ready')
    UNION SELECT 'trouble' FROM node_troubles AS t WHERE node = $node AND {rows.MAY_MATTER}
    UNION SELECT 'violation' FROM violations WHERE node = $node"""
"""What a node has of what problems are made of: few have many kinds of them."""


class Problem(NamedTuple):
    """A kind of things that go wrong.

    Attributes:
        severity: 5 (the worst) to 0, as above.
        one, many: what one and several of them are called.
        rows: a query for the occurrences, with ``node``, ``seq`` and ``ts``.
        by: what occurrences of one incident share; ``subject`` is whom it hit.
        text: the sentence, of a row of the grouped query; ``{times}`` is how often.
        more: other columns of the grouped query, aggregates.
        target: what ``kubeledger why`` would be asked, of ``about`` or the subject.
        is_counted: a summary of the import counts it; it reports the others elsewhere.
        of: what its rows are made of, by the words of ``PRESENT``; without any there are none.
    """

    kind: str
    severity: int
    one: str
    many: str
    rows: str
    by: str
    text: Callable[[Row], str] | str
    more: str = ""
    target: str | None = None
    is_counted: bool = True
    of: str = ""

    @property
    def query(self) -> str:
        """Its incidents on ``$node``."""
        more = f", {self.more}" if self.more else ""
        return f"""SELECT {self.by}{more}, count(*) AS count, min(epoch_ns(ts)) AS ts_ns,
            arg_min(seq, (ts, seq)) AS seq
        FROM ({self.rows}) WHERE node = $node GROUP BY ALL HAVING count(*) > 0"""

    def sentence(self, row: Row) -> str:
        """What is said of an incident."""
        if isinstance(self.text, str):
            return self.text.format_map({**row, "times": times_text(row["count"])})
        return self.text(row)


_STARTING = "admission config network cgroup volumes resources sandbox image create start hook"
"""Stages up to the start."""

PROBLEMS: tuple[Problem, ...] = (
    Problem(
        "not_ready", 5, "time not ready", "times not ready", rows.NOT_READY,
        "'node' AS subject, coalesce(regexp_replace(message, '[0-9]+', '#', 'g'), reason) AS cause",
        sentences.not_ready,
        """arg_min(coalesce(message, reason), (ts, seq)) AS message, bool_or(until_ts IS NULL)
        AS is_open, sum(lasted_ns)::BIGINT AS lasted_ns""",
        "node",
        of="Ready",
    ),
    Problem(
        "kubelet_died", 5, "kubelet death", "kubelet deaths", rows.KUBELET_DEATHS,
        "'kubelet' AS subject, seq AS exit_seq", sentences.kubelet_died,
        "any_value(message) AS message, any_value(pid) AS pid", "node",
        of="node.KubeletExited",
    ),
    Problem(
        "violation", 5, "violation of what always holds", "violations of what always holds",
        "SELECT * FROM violations", "subject, message, list_sort(bugs) AS bugs",
        sentences.violation,
        of="violation",
    ),
    Problem(
        "impossible", 5, "impossible decision", "impossible decisions", rows.IMPOSSIBLE,
        "kind AS subject", sentences.impossible,
    ),
    Problem(
        "preempted", 4, "preempted pod", "preempted pods", "SELECT * FROM preemptions",
        "preemptor_namespace || '/' || preemptor_pod AS subject, preemptor_uid",
        sentences.preempted,
        """list(victim_pod ORDER BY seq) AS victims,
        arg_min(victim_namespace || '/' || victim_pod, seq) AS about,
        list_sort(list_distinct(list(insufficient))) AS missing""",
        "pod/{}",
        of="preemption.PodPreempted",
    ),
    Problem(
        "evicted", 4, "evicted pod", "evicted pods", rows.EVICTED,
        "coalesce(signal, resource, 'signal not recorded') AS subject, kind", sentences.evicted,
        """count(*) FILTER (late) AS late, list(name ORDER BY seq) AS pods,
        arg_min(name, seq) AS about""",
        "pod/{}",
        of="lifecycle.PodEvicted",
    ),
    Problem(
        "oom", 4, "OOM kill", "OOM kills", "SELECT * FROM oom_kills",
        """coalesce(nullif(concat_ws('/', namespace, pod, container), ''),
            process || coalesce(' of pod ' || pod_uid, ''), cgroup) AS subject,
            reason, if(reason IS NULL, cgroup, NULL) AS shared""",
        sentences.oom,
        """any_value(if(pod IS NULL, pod_uid, concat_ws('/', namespace, pod, container)))
            AS about""",
        target="container/{}",
        of="oom.ProcessKilled",
    ),
    Problem(
        "out_of_memory", 4, "shortage of memory", "shortages of memory", rows.OUT_OF_MEMORY,
        "subject, asked", sentences.out_of_memory,
        of="oom.OutOfMemory",
    ),
    Problem(
        "stuck", 4, "stuck start", "stuck starts", rows.STUCK, "stage, cause, is_ended",
        sentences.stuck, f"{EPISODES}, bool_and(ran) AS ran_before", "pod/{}",
        of="open",
    ),
    Problem(
        "refused", 4, "refused pod", "refused pods", rows.REFUSED,
        "coalesce(reason, 'reason not recorded') AS subject", sentences.refused,
        f"{PODS}, arg_min(message, seq) AS message", "pod/{}",
        of="lifecycle.PodRejected",
    ),
    Problem(
        "trouble", 3, "trouble of the node", "troubles of the node", rows.TROUBLES,
        "trouble AS subject", sentences.trouble,
        """arg_min(message, (ts, seq)) AS message, sum(attempts)::BIGINT AS attempts,
        sum(lasted_ns)::BIGINT AS lasted_ns, bool_or(is_open) AS is_open""",
        "node",
        of="trouble",
    ),
    Problem(
        "killed", 3, "kill by a probe or hook", "kills by probes or hooks", rows.KILLED,
        f"{CONTAINER}, reason", sentences.killed, "any_value(back_off_s) AS back_off_s",
        "container/{}",
        of="lifecycle.ContainerKilled",
    ),
    Problem(
        "crashed", 3, "crashing container", "series of crashes", rows.CRASHED, CONTAINER,
        sentences.crashed,
        """max(back_off_s) AS back_off_s, any_value(deaths) AS deaths, any_value(exit_code)
        AS exit_code, sum(attempts)::BIGINT AS attempts, arg_min(reason, (ts, seq)) AS reason,
        arg_min(message, (ts, seq)) AS message""",
        "container/{}",
        of="run",
    ),
    Problem(
        "failed", 3, "failed pod", "failed pods", rows.FAILED, "codes, reason",
        sentences.failed,
        f"arg_min({POD}, seq) AS subject, {PODS}, arg_min(message, seq) AS message", "pod/{}",
        of="lifecycle.PodListed",
    ),
    Problem(
        "not_ended", 2, "delayed end", "delayed ends", rows.NOT_ENDED, "stage, cause",
        sentences.not_ended, EPISODES, "pod/{}",
        of="stop teardown",
    ),
    Problem(
        "waited", 2, "delayed start", "delayed starts", rows.WAITED, "stage, cause",
        sentences.waited, EPISODES, "pod/{}",
        of=_STARTING,
    ),
    Problem(
        "gc_failed", 2, "failed image GC run", "failed image GC runs", rows.GC_FAILED,
        "'image GC' AS subject", sentences.gc_failed,
        """max(bytes_to_free) AS wanted_bytes, sum(bytes_freed) AS freed_bytes,
        arg_min(error, seq) AS error""",
        of="images.GarbageCollected",
    ),
    Problem(
        "unready", 2, "change to unready", "changes to unready", rows.UNREADY,
        f"{CONTAINER}, form", sentences.unready,
        target="container/{}",
        of="prober.ProbeTransitioned ready",
    ),
    Problem(
        "resize", 2, "resize that does not fit", "resizes that do not fit", rows.RESIZES,
        "outcome, reason", sentences.resize,
        f"arg_min({POD}, seq) AS subject, {PODS}, arg_min(message, seq) AS message", "pod/{}",
        of="lifecycle.PodResized",
    ),
    Problem(
        "reclaim_failed", 2, "shortage without an eviction", "shortages without an eviction",
        rows.RECLAIM_FAILED, "coalesce(signal, resource, 'something') AS subject, outcome",
        sentences.reclaim_failed, "arg_max(ranked, seq) AS ranked, arg_max(spared, seq) AS spared",
        "node",
        of="eviction.ReclaimAttempted",
    ),
    Problem(
        "pressure", 2, "condition of pressure", "conditions of pressure", rows.PRESSURE,
        "condition AS subject", "the node reported {subject}{times}",
        is_counted=False,
        of="pressure",
    ),
    Problem(
        "reclaimed", 2, "shortage ended by deleting unused images",
        "shortages ended by deleting unused images",
        rows.RECLAIMED, "coalesce(signal, resource, 'something') AS subject",
        "{subject} was short{times}; deleting unused images and containers was enough",
        target="node",
        of="eviction.ReclaimAttempted",
    ),
    Problem(
        "spared", 1, "spared pod", "spared pods", of_kind("eviction.PodSpared"),
        f"{POD} AS subject", "{subject} was to be evicted{times} and was spared: it is critical",
        target="pod/{}",
        of="eviction.PodSpared",
    ),
    Problem(
        "shutdown", 1, "shutdown", "shutdowns", rows.SHUTDOWNS, "'shutdown' AS subject",
        sentences.shutdown, "max(late) AS timed_out, bool_or(completed) AS completed", "node",
        of="node.ShutdownProgressed",
    ),
    Problem(
        "rebooted", 1, "reboot", "reboots", rows.REBOOTS, "'reboot' AS subject",
        "the node was rebooted{times}",
        target="node",
        of="lifecycle.ReasonReported",
    ),
    Problem(
        "kubelet_restarted", 1, "kubelet restart", "kubelet restarts", rows.KUBELET_RESTARTS,
        "'kubelet' AS subject, pid, seq AS start_seq",
        lambda row: "kubelet restarted" + (f" (pid {row['pid']})" if row["pid"] else ""),
        target="node",
        of="restart",
    ),
    Problem(
        "log_lost", 1, "log with lines missing", "logs with lines missing",
        of_kind("node.LogThinned"), "'log' AS subject",
        "lines of the log are missing or cut",
        is_counted=False,
        of="node.LogThinned",
    ),
    Problem(
        "clock_step", 1, "step of the clock", "steps of the clock", of_kind("node.ClockStepped"),
        "'clock' AS subject", "the clock was set back{times}",
        is_counted=False,
        of="node.ClockStepped",
    ),
    Problem(
        "finding", 1, "finding about the sources", "findings about the sources", rows.FINDINGS,
        "finding AS subject", sentences.finding, "arg_min(message, seq) AS message",
        is_counted=False,
        of="ledger.FindingReported",
    ),
    Problem(
        "not_understood", 1, "shape of lines that are not understood",
        "shapes of lines that are not understood", "SELECT * FROM not_understood",
        "shape AS subject", sentences.not_understood, "sum(count)::BIGINT AS lines",
        is_counted=False,
        of="ledger.LinesNotUnderstood",
    ),
    Problem(
        "deleted", 0, "deleted image", "deleted images", "SELECT * FROM image_gc_deletions",
        "'images' AS subject",
        lambda row: f"{row['count']} image{'s' if row['count'] > 1 else ''} deleted",
        of="images.ImageDeleted",
    ),
)  # fmt: skip
"""In the order of headlines and summaries; worst first, and those that did more harm first."""


def possible(present: AbstractSet[str], *, verdicts: bool) -> list[Problem]:
    """Those of which a node may have some.

    Args:
        present: what ``PRESENT`` says of it.
        verdicts: impossible decisions, too.
    """
    return [each for each in PROBLEMS if (present & {*each.of.split()} if each.of else verdicts)]


def occurrences(kinds: Iterable[str]) -> str:
    """A query for all that went wrong of some kinds: node, kind, severity, seq and ts of each."""
    wanted = set(kinds)
    return " UNION ALL ".join(
        f"SELECT node, '{each.kind}' AS kind, {each.severity} AS severity, seq, ts"
        f" FROM ({each.rows})"
        for each in PROBLEMS
        if each.kind in wanted
    )
