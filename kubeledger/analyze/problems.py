"""What counts as going wrong: one table, from which import, page, fleet and `why node` take it.

A kind's ``rows`` are its occurrences, of any node: the page steps through them and a fleet counts
them. Put together by what they have in common they are incidents (``headlines``). The order is
that of the harm done to the node and its pods:

5. the node takes no pods, or its kubelet does not work as any kubelet would;
4. pods were ended, or never began;
3. containers run with interruptions, or the kubelet cannot do a part of its work;
2. pods waited, or something was short and nobody had to go;
1. what happened to the kubelet in an orderly way, and what the evidence lacks;
0. what is counted and is no problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kubeledger.analyze.phrases import (
    bytes_text,
    missing_text,
    names_text,
    pods_text,
    shortened,
    span_text,
    times_text,
)
from kubeledger.kubelet.cgroups.paths import is_of_pods
from kubeledger.kubelet.lifecycle.exits import how_it_ended
from kubeledger.model.units import NS_PER_S

Row = Mapping[str, Any]

NEEDED = "events, pod_stages, node_conditions, node_troubles, logged_errors, violations"
"""Views that between them need all that the rows below do."""

PRESENT = """SELECT kind AS what FROM events WHERE node = $node
    UNION SELECT stage FROM pod_stages WHERE node = $node
    UNION SELECT if(condition = 'Ready', 'Ready', 'pressure') FROM node_conditions
        WHERE node = $node
    UNION SELECT 'trouble' FROM node_troubles WHERE node = $node
    UNION SELECT 'violation' FROM violations WHERE node = $node"""
"""What a node has of what problems are made of: few have many kinds of them."""


class Problem(NamedTuple):
    """A kind of things that go wrong.

    Attributes:
        severity: 5 (the worst) to 0, as above.
        one, many: what one and several of them are called.
        rows: a query for the occurrences, with ``node``, ``seq`` and ``ts``.
        by: what occurrences of one incident share; ``subject`` is whom it hit.
        text: the sentence, of a row of the grouped query.
        more: other columns of the grouped query, aggregates; each after a comma.
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
    text: Callable[[Row], str]
    more: str = ""
    target: str | None = None
    is_counted: bool = True
    of: str = ""

    @property
    def query(self) -> str:
        """Its incidents on ``$node``."""
        return f"""SELECT {self.by}{self.more}, count(*) AS count, min(epoch_ns(ts)) AS ts_ns,
            arg_min(seq, (ts, seq)) AS seq
        FROM ({self.rows}) WHERE node = $node GROUP BY ALL HAVING count(*) > 0"""


_CONTAINER = "concat_ws('/', namespace, pod, container) AS subject"
_POD = "concat_ws('/', namespace, pod)"
_HARMLESS_S = 30
"""Pods that waited no longer, and a node that was not ready so long, did nobody harm."""
_SILENT_MIN = 5
"""A kubelet says more often what goes on: mounts are tried every two minutes, pulls waited for."""

# --- the node -----------------------------------------------------------------------------

_NOT_READY = f"""SELECT c.*, epoch_ns(coalesce(c.until_ts, c.ts)) - epoch_ns(c.ts) AS lasted_ns
FROM node_conditions AS c
WHERE c.condition = 'Ready' AND c.status <> 'True' AND NOT (
    c.until_ts - c.ts < INTERVAL {_HARMLESS_S} SECOND AND EXISTS (
        SELECT 1 FROM kubelet_starts AS k WHERE k.node = c.node
            AND k.ts BETWEEN c.ts - INTERVAL 1 MINUTE AND c.until_ts)
) AND NOT EXISTS (
    SELECT 1 FROM events AS e WHERE e.node = c.node AND e.kind = 'node.ShutdownProgressed'
        AND e.ts BETWEEN c.ts - INTERVAL 1 MINUTE AND c.ts + INTERVAL 1 MINUTE)"""
"""Not those that a start or a shutdown brings along."""
_TROUBLES = f"""SELECT t.*, epoch_ns(coalesce(t.passed_ts, t.last_ts)) - epoch_ns(t.ts) AS lasted_ns
FROM node_troubles AS t
WHERE (
        coalesce(t.passed_ts, t.last_ts) - t.ts >= INTERVAL {_HARMLESS_S} SECOND
        OR t.passed_ts IS NULL AND t.last_ts >= (
            SELECT max(e.ts) FROM events AS e WHERE e.node = t.node
        ) - INTERVAL {_SILENT_MIN} MINUTE
    )
    AND NOT starts_with(t.message, 'container runtime status check may not have completed yet')
    AND NOT EXISTS (
        SELECT 1 FROM node_conditions AS c WHERE c.node = t.node
            AND c.condition = 'Ready' AND c.status <> 'True'
            AND c.ts <= t.last_ts + INTERVAL 1 MINUTE
            AND coalesce(c.until_ts, t.ts) >= t.ts - INTERVAL 1 MINUTE)
    AND NOT EXISTS (
        SELECT 1 FROM node_troubles AS o WHERE o.node = t.node
            AND o.ts <= t.last_ts AND coalesce(o.passed_ts, o.last_ts) >= t.ts
            AND (t.trouble = 'sync_skipped' AND o.trouble <> 'sync_skipped'
                OR t.trouble IN (
                    'status_update_failed', 'lease_update_failed', 'registration_failed')
                AND o.trouble = 'api_unreachable'))"""
"""Those that a condition of the node does not tell, nor a trouble that they follow from, nor a
start of the kubelet."""


def _not_ready(row: Row) -> str:
    cause = f": {shortened(row['message'])}" if row["message"] else ""
    if row["is_open"]:
        return f"the node is not ready{cause}"
    return (
        f"the node was not ready{times_text(row['count'])} for {span_text(row['lasted_ns'])}{cause}"
    )


_TROUBLE_WORDS = {
    "runtime_down": "the container runtime did not answer",
    "network_not_ready": "the node's network was not ready",
    "pleg_unhealthy": "PLEG was not healthy",
    "sync_skipped": "pods were not synchronized",
    "registration_failed": "the node could not be registered",
    "status_update_failed": "the node's status could not be updated",
    "lease_update_failed": "the node's lease could not be renewed",
    "api_unreachable": "the API server could not be reached",
    "certificate": "a certificate is not valid",
    "container_manager_failed": "the container manager did not start",
    "storage_not_ready": "storage was not ready",
}


def _trouble(row: Row) -> str:
    said = times_text(row["attempts"])
    span = f" for {span_text(row['lasted_ns'])}" if row["lasted_ns"] else ""
    words = _TROUBLE_WORDS.get(row["subject"], row["subject"].replace("_", " "))
    return f"{words}{span}{said and f', said{said}'}: {shortened(row['message'])}"


def _kubelet_died(row: Row) -> str:
    pid = f" (pid {row['pid']})" if row["pid"] else ""
    return f"kubelet{pid} died: {shortened(row['message'] or '')}"


def _gc_failed(row: Row) -> str:
    times = times_text(row["count"])
    if row["wanted_bytes"]:
        freed = f", freed {bytes_text(row['freed_bytes'])}" if row["freed_bytes"] else ""
        return f"image GC failed{times}: wanted {bytes_text(row['wanted_bytes'])}{freed}"
    return f"image GC failed{times}: {shortened(row['error'] or '')}"


def _shutdown(row: Row) -> str:
    late = row["timed_out"]
    tail = f"; pods of {late} priorities did not end in time" if late else ""
    return f"the node was shut down{times_text(row['count'])}{tail}"


# --- pods ---------------------------------------------------------------------------------

_STUCK = f"""SELECT p.*, {_POD.replace("pod)", "coalesce(pod, pod_uid))")} AS name,
    coalesce(
        CASE WHEN stage IN ('image', 'create', 'resources') THEN about END,
        regexp_replace(message, '"[^"]*"|[0-9a-f-]*[0-9][0-9a-f-]*', '#', 'g')
    ) AS cause,
    ended_ts IS NOT NULL AS is_ended,
    epoch_ns(coalesce(passed_ts, ended_ts, last_ts)) - epoch_ns(p.ts) AS lasted_ns,
    passed_ts IS NULL AND (ended_ts IS NOT NULL OR last_ts >= (
        SELECT max(e.ts) FROM events AS e WHERE e.node = p.node
    ) - INTERVAL {_SILENT_MIN} MINUTE) AS is_stuck
FROM pod_stages AS p"""
_BEFORE_START = "stage NOT IN ('admission', 'run', 'ready', 'stop', 'teardown')"
_LONG = f"lasted_ns >= {_HARMLESS_S * NS_PER_S}"
_EPISODES = """, arg_min(name, (ts, seq)) AS subject, list(name ORDER BY ts, seq) AS pods,
    sum(attempts)::BIGINT AS attempts, arg_min(reason, (ts, seq)) AS reason,
    arg_min(message, (ts, seq)) AS message, arg_min(about, (ts, seq)) AS about_what,
    max(lasted_ns) AS lasted_ns"""
_RAN_BEFORE = """EXISTS (SELECT 1 FROM container_states AS c
    WHERE c.node = s.node AND c.pod_uid = s.pod_uid AND c.state = 'started' AND c.ts < s.ts
        AND NOT coalesce(c.sandbox, false) AND c.container = coalesce(s.container, c.container))"""
_WANTS = {
    "config": "an earlier pod of its name",
    "network": "the node's network",
    "cgroup": "its cgroup",
    "volumes": "its volumes",
    "resources": "its resource claims",
    "sandbox": "its sandbox",
    "image": "its image",
    "create": "its container's creation",
    "start": "its container's start",
    "hook": "its post-start hook",
    "stop": "its end",
    "teardown": "its removal",
}
_LACKS = {
    "config": "an earlier pod of its name has not ended",
    "network": "the node's network is not ready",
    "cgroup": "its cgroup cannot be made",
    "volumes": "its volumes are not mounted",
    "resources": "its resource claims are not prepared",
    "sandbox": "it gets no sandbox",
    "image": "its image {}cannot be pulled",
    "create": "its container cannot be created",
    "start": "its container cannot be started",
    "hook": "its post-start hook fails",
}

_STARTING = " ".join(_LACKS)


def _why(row: Row) -> str:
    """The kubelet's word, and the end of the chain of errors."""
    return (
        f"({row['reason']}: {shortened(row['message'])})"
        if row["message"]
        else f"({row['reason']})"
    )


def _tries(row: Row) -> str:
    return f", {row['attempts']:,} tries" if row["attempts"] > 1 else ""


def _stuck(row: Row) -> str:
    several = len(set(row["pods"])) > 1
    has = "have" if several else "has"
    if row["ran_before"]:
        verb = "do not run again" if several else "does not run again"
    elif row["is_ended"]:
        verb = f"had not started when {'they were' if several else 'it was'} ended"
        if row["lasted_ns"] >= NS_PER_S:
            verb += f" after {'up to ' if several else ''}{span_text(row['lasted_ns'])}"
    else:
        verb = f"{has} not started"
    lack = _LACKS[row["stage"]].format(f"{row['about_what']} " if row["about_what"] else "")
    lack = lack.replace("its ", "their ").replace("it gets", "they get") if several else lack
    return f"{pods_text(row['pods'])} {verb}: {lack} {_why(row)}{_tries(row)}"


def _waited(row: Row) -> str:
    several = len(set(row["pods"])) > 1
    wants = _WANTS[row["stage"]].replace("its ", "their " if several else "its ", 1)
    if row["lasted_ns"] < _HARMLESS_S * NS_PER_S:  # and was not heard of again
        return f"{pods_text(row['pods'])} asked in vain for {wants} {_why(row)}{_tries(row)}"
    upto = "up to " if several else ""
    span = span_text(row["lasted_ns"])
    return f"{pods_text(row['pods'])} waited {upto}{span} for {wants} {_why(row)}"


def _preempted(row: Row) -> str:
    missing = missing_text(", ".join(row["missing"])) if row["missing"] else ""
    short = f" ({missing} missing)" if missing else ""
    return f"{row['subject'] or 'an unknown pod'} preempted {names_text(row['victims'])}{short}"


def _evicted(row: Row) -> str:
    cause = "its storage limit" if row["kind"] == "local_storage" else row["subject"]
    kind = f" ({row['kind']})" if row["kind"] in {"hard", "soft", "allocatable"} else ""
    known = cause != "signal not recorded"
    return f"{pods_text(row['pods'])} evicted{' for' if known else ','} {cause}{kind}"


_OOM = {"pod_limit": " at its pod's limit", "node": ": the node was out of memory"}
_WORDS = {
    "liveness_probe": "liveness probe",
    "startup_probe": "startup probe",
    "post_start_hook": "post-start hook's failure",
}
_SHARED = ": all pods together had reached their limit"
_PROBE_KILL = "reason IN ('liveness_probe', 'startup_probe', 'post_start_hook')"
_BACK_OFFS = """(SELECT node, pod_uid, container, max(back_off_s) AS back_off_s
    FROM restart_backoffs GROUP BY ALL)"""
_DEATHS = """(SELECT node, pod_uid, container, count(*) AS deaths,
        arg_min(exit_code, seq) AS exit_code
    FROM container_states AS c
    WHERE state = 'died' AND exit_code <> 0 AND cause_seq IS NULL AND NOT coalesce(sandbox, false)
        AND NOT (exit_code = 137 AND EXISTS (SELECT 1 FROM oom_kills AS o
            WHERE o.node = c.node AND o.pod_uid = c.pod_uid AND o.container = c.container))
    GROUP BY ALL)"""
_CRASHED = f"""SELECT s.*, b.back_off_s, d.deaths, d.exit_code
FROM pod_stages AS s
LEFT JOIN {_BACK_OFFS} AS b USING (node, pod_uid, container)
LEFT JOIN {_DEATHS} AS d USING (node, pod_uid, container)
WHERE s.stage = 'run' AND (d.deaths IS NOT NULL OR NOT EXISTS (
    SELECT 1 FROM (
        SELECT node, pod_uid, container, ts FROM container_kills WHERE {_PROBE_KILL}
        UNION ALL SELECT node, pod_uid, container, ts FROM oom_kills
    ) AS k WHERE k.node = s.node AND k.pod_uid = s.pod_uid AND k.container = s.container))"""
"""Containers that fail by themselves; what a probe or the kernel killed is told by that."""


def _back_off(row: Row) -> str:
    return f", back-off {row['back_off_s']} s" if row["back_off_s"] else ""


def _crashed(row: Row) -> str:
    if row["deaths"]:
        ended = how_it_ended(row["exit_code"], times_text(row["deaths"]))
        return f"{row['subject']} {ended}{_back_off(row)}"
    why = row["message"] or row["reason"]
    return f"{row['subject']} kept failing{times_text(row['attempts'])}: {shortened(why)}"


_UNREADY = """SELECT node, seq, ts, namespace, pod, container, false AS never
FROM probe_transitions
WHERE probe_type = 'readiness' AND to_result = 'failure' AND from_result = 'success'
UNION ALL
SELECT node, seq, ts, namespace, pod, container, true FROM pod_stages AS s
WHERE stage = 'ready' AND passed_ts IS NULL AND ended_ts IS NULL AND NOT EXISTS (
    SELECT 1 FROM probe_transitions AS t WHERE t.node = s.node AND t.pod_uid = s.pod_uid
        AND t.container = s.container AND t.to_result = 'success')"""


def _resize(row: Row) -> str:
    verb = {"deferred": "waits until it fits", "infeasible": "can never fit"}[row["outcome"]]
    why = shortened(row["message"] or row["reason"] or "")
    return f"{pods_text(row['pods'])}: a resize {verb}" + (f" ({why})" if why else "")


def _finding(row: Row) -> str:
    words = row["subject"].replace("_", " ")
    return f"{words}{times_text(row['count'])}: {shortened(row['message'])}"


PROBLEMS: tuple[Problem, ...] = (
    Problem(
        "not_ready", 5, "time not ready", "times not ready", _NOT_READY,
        "'node' AS subject, coalesce(regexp_replace(message, '[0-9]+', '#', 'g'), reason) AS cause",
        _not_ready,
        """, arg_min(coalesce(message, reason), (ts, seq)) AS message, bool_or(until_ts IS NULL)
        AS is_open, sum(lasted_ns)::BIGINT AS lasted_ns""",
        "node",
        of="Ready",
    ),
    Problem(
        "kubelet_died", 5, "kubelet death", "kubelet deaths",
        """SELECT node, seq, ts, body ->> 'pid' AS pid, body ->> 'message' AS message
        FROM events WHERE kind = 'node.KubeletExited' AND body ->> 'reason' <> 'stopped'""",
        "'kubelet' AS subject, seq AS exit_seq", _kubelet_died,
        ", any_value(message) AS message, any_value(pid) AS pid", "node",
        of="node.KubeletExited",
    ),
    Problem(
        "violation", 5, "violation of what always holds", "violations of what always holds",
        "SELECT * FROM violations", "subject, message, list_sort(bugs) AS bugs",
        lambda row: row["message"] + (f" ({', '.join(row['bugs'])})" if row["bugs"] else ""),
        of="violation",
    ),
    Problem(
        "impossible", 5, "impossible decision", "impossible decisions",
        "SELECT * FROM verdicts WHERE verdict = 'impossible' AND NOT inferred", "kind AS subject",
        lambda row: (
            f"{row['subject']}: {row['count']} decisions that this kubelet could not have taken"
            if row["count"] > 1
            else f"{row['subject']}: a decision that this kubelet could not have taken"
        ),
    ),
    Problem(
        "preempted", 4, "preempted", "preempted",
        "SELECT * FROM preemptions",
        "preemptor_namespace || '/' || preemptor_pod AS subject, preemptor_uid", _preempted,
        """, list(victim_pod ORDER BY seq) AS victims,
        arg_min(victim_namespace || '/' || victim_pod, seq) AS about,
        list_sort(list_distinct(list(insufficient))) AS missing""",
        "pod/{}",
        of="preemption.PodPreempted",
    ),
    Problem(
        "evicted", 4, "evicted", "evicted",
        # A pod counts once, and also if the manager did not wait for its end: it had failed then.
        f"""SELECT *, {_POD} AS name, bool_and(NOT coalesce(evicted, true)) OVER its AS late
        FROM evictions
        WINDOW its AS (PARTITION BY node, coalesce(pod_uid, {_POD}))
        QUALIFY row_number() OVER (
            PARTITION BY node, coalesce(pod_uid, {_POD}) ORDER BY seq) = 1""",
        "coalesce(signal, resource, 'signal not recorded') AS subject, kind", _evicted,
        """, count(*) FILTER (late) AS late, list(name ORDER BY seq) AS pods,
        arg_min(name, seq) AS about""",
        "pod/{}",
        of="lifecycle.PodEvicted",
    ),
    Problem(
        "oom", 4, "OOM kill", "OOM kills", "SELECT * FROM oom_kills",
        """coalesce(nullif(concat_ws('/', namespace, pod, container), ''), process, cgroup)
            AS subject, reason, if(reason IS NULL, cgroup, NULL) AS shared""",
        lambda row: (
            f"{row['subject'] or 'a process'} OOM-killed{times_text(row['count'])}"
            + _OOM.get(row["reason"], _SHARED if is_of_pods(row["shared"]) else "")
        ),
        target="container/{}",
        of="oom.ProcessKilled",
    ),
    Problem(
        "out_of_memory", 4, "shortage of memory", "shortages of memory",
        """SELECT *, body ->> 'invoked_by' AS subject FROM events AS e
        WHERE kind = 'oom.OutOfMemory'
            AND NOT EXISTS (SELECT 1 FROM oom_kills AS k WHERE k.node = e.node
                AND k.cause_seq = e.seq)""",
        "subject",
        lambda row: (
            f"the kernel ran out of memory{times_text(row['count'])} when {row['subject']} asked "
            "for some; whom it killed is not recorded"
        ),
        of="oom.OutOfMemory",
    ),
    Problem(
        "stuck", 4, "stuck", "stuck",
        f"""SELECT *, {_RAN_BEFORE} AS ran FROM ({_STUCK}) AS s
        WHERE is_stuck AND {_BEFORE_START} AND ({_LONG} OR NOT is_ended OR NOT ran)""",
        "stage, cause, is_ended", _stuck,
        f"{_EPISODES}, bool_and(ran) AS ran_before", "pod/{}",
        of=_STARTING,
    ),
    Problem(
        "refused", 4, "refused", "refused", "SELECT * FROM admissions WHERE NOT admitted",
        "coalesce(reason, 'reason not recorded') AS subject",
        lambda row: f"{pods_text(row['pods'])} rejected: {row['subject']}",
        f", list({_POD} ORDER BY seq) AS pods, arg_min({_POD}, seq) AS about", "pod/{}",
        of="lifecycle.PodRejected",
    ),
    Problem(
        "trouble", 3, "trouble of the node", "troubles of the node", _TROUBLES,
        "trouble AS subject", _trouble,
        """, arg_min(message, (ts, seq)) AS message, sum(attempts)::BIGINT AS attempts,
        sum(lasted_ns)::BIGINT AS lasted_ns""",
        "node",
        of="trouble",
    ),
    Problem(
        "killed", 3, "killed by probes or hooks", "killed by probes or hooks",
        f"""SELECT k.*, back_off_s FROM container_kills AS k
        LEFT JOIN {_BACK_OFFS} USING (node, pod_uid, container) WHERE {_PROBE_KILL}""",
        f"{_CONTAINER}, reason",
        lambda row: (
            f"{row['subject']} killed{times_text(row['count'])} by its {_WORDS[row['reason']]}"
            f"{_back_off(row)}"
        ),
        ", any_value(back_off_s) AS back_off_s", "container/{}",
        of="lifecycle.ContainerKilled",
    ),
    Problem(
        "crashed", 3, "crashing container", "crashing containers", _CRASHED, _CONTAINER, _crashed,
        """, max(back_off_s) AS back_off_s, any_value(deaths) AS deaths, any_value(exit_code)
        AS exit_code, sum(attempts)::BIGINT AS attempts, arg_min(reason, (ts, seq)) AS reason,
        arg_min(message, (ts, seq)) AS message""",
        "container/{}",
        of="run",
    ),
    Problem(
        "not_ended", 2, "not ended", "not ended",
        f"SELECT * FROM ({_STUCK}) WHERE stage IN ('stop', 'teardown') AND (is_stuck OR {_LONG})",
        "stage, cause",
        lambda row: f"{pods_text(row['pods'])} could not be ended at once {_why(row)}{_tries(row)}",
        _EPISODES, "pod/{}",
        of="stop teardown",
    ),
    Problem(
        "waited", 2, "waited", "waited",
        f"""SELECT * FROM ({_STUCK}) WHERE NOT is_stuck AND {_BEFORE_START}
            AND ({_LONG} OR passed_ts IS NULL)""",
        "stage, cause", _waited, _EPISODES, "pod/{}",
        of=_STARTING,
    ),
    Problem(
        "gc_failed", 2, "image GC run failed", "image GC runs failed",
        "SELECT * FROM image_gc_runs WHERE outcome = 'failed'", "'image GC' AS subject", _gc_failed,
        """, max(bytes_to_free) AS wanted_bytes, sum(bytes_freed) AS freed_bytes,
        arg_min(error, seq) AS error""",
        of="images.GarbageCollected",
    ),
    Problem(
        "unready", 2, "change to unready", "changes to unready", _UNREADY,
        f"{_CONTAINER}, never",
        lambda row: (
            f"{row['subject']} has not become ready"
            if row["never"]
            else f"{row['subject']} went unready{times_text(row['count'])}"
        ),
        target="container/{}",
        of="prober.ProbeTransitioned ready",
    ),
    Problem(
        "resize", 2, "resize that does not fit", "resizes that do not fit",
        """SELECT * FROM resizes QUALIFY outcome IN ('deferred', 'infeasible')
            AND row_number() OVER (
                PARTITION BY node, coalesce(pod_uid, namespace || '/' || pod) ORDER BY seq DESC
            ) = 1""",
        "outcome, reason", _resize,
        f""", arg_min({_POD}, seq) AS subject, list({_POD} ORDER BY seq) AS pods,
        arg_min(message, seq) AS message""",
        "pod/{}",
        of="lifecycle.PodResized",
    ),
    Problem(
        "reclaim_failed", 2, "shortage without a pod to evict", "shortages without a pod to evict",
        """SELECT * FROM reclaims AS r WHERE outcome = 'nothing' OR outcome IS NULL AND NOT EXISTS (
            SELECT 1 FROM evictions AS e WHERE e.node = r.node AND e.cause_seq = r.seq)""",
        "coalesce(signal, resource, 'something') AS subject, outcome",
        lambda row: (
            f"{row['subject']} was short{times_text(row['count'])}, and "
            + ("no pod could go" if row["outcome"] else "which pod had to go is not recorded")
        ),
        target="node",
        of="eviction.ReclaimAttempted",
    ),
    Problem(
        "pressure", 2, "condition of pressure", "conditions of pressure",
        "SELECT * FROM node_conditions WHERE condition <> 'Ready' AND status = 'True'",
        "condition AS subject",
        lambda row: f"the node reported {row['subject']}{times_text(row['count'])}",
        is_counted=False,
        of="pressure",
    ),
    Problem(
        "spared", 1, "spared", "spared",
        "SELECT * FROM events WHERE kind = 'eviction.PodSpared'", f"{_POD} AS subject",
        lambda row: f"{row['subject']} was to be evicted{times_text(row['count'])}: it is critical",
        target="pod/{}",
        of="eviction.PodSpared",
    ),
    Problem(
        "shutdown", 1, "shutdown", "shutdowns",
        """SELECT *, (SELECT count(*) FROM events AS t WHERE t.node = e.node AND t.seq > e.seq
            AND t.kind = 'node.ShutdownProgressed' AND t.body ->> 'step' = 'timed_out') AS late
        FROM events AS e
        WHERE kind = 'node.ShutdownProgressed' AND body ->> 'step' = 'detected'""",
        "'shutdown' AS subject", _shutdown, ", max(late) AS timed_out", "node",
        of="node.ShutdownProgressed",
    ),
    Problem(
        "rebooted", 1, "reboot", "reboots",
        "SELECT * FROM kubernetes_events WHERE object_kind = 'Node' AND reason = 'Rebooted'",
        "'reboot' AS subject", lambda row: f"the node was rebooted{times_text(row['count'])}",
        target="node",
        of="lifecycle.ReasonReported",
    ),
    Problem(
        "kubelet_restarted", 1, "kubelet restart", "kubelet restarts",
        "SELECT * FROM kubelet_starts WHERE restart", "'kubelet' AS subject, pid, seq AS start_seq",
        lambda row: "kubelet restarted" + (f" (pid {row['pid']})" if row["pid"] else ""),
        target="node",
        of="node.KubeletStarted",
    ),
    Problem(
        "log_lost", 1, "log with lines missing", "logs with lines missing",
        "SELECT * FROM events WHERE kind = 'node.LogThinned'",
        "'log' AS subject", lambda _: "lines of the log are missing or cut", is_counted=False,
        of="node.LogThinned",
    ),
    Problem(
        "clock_step", 1, "step of the clock", "steps of the clock",
        "SELECT * FROM events WHERE kind = 'node.ClockStepped'",
        "'clock' AS subject", lambda row: f"the clock was set back{times_text(row['count'])}",
        is_counted=False,
        of="node.ClockStepped",
    ),
    Problem(
        "finding", 1, "finding about the sources", "findings about the sources",
        "SELECT * FROM findings WHERE NOT starts_with(finding, 'clock_')",
        "finding AS subject", _finding, ", arg_min(message, seq) AS message", is_counted=False,
        of="ledger.FindingReported",
    ),
    Problem(
        "not_understood", 1, "shape of lines that are not understood",
        "shapes of lines that are not understood",
        "SELECT * FROM not_understood", "shape AS subject",
        lambda row: f"{row['lines']:,} × not understood: {shortened(row['subject'])}",
        ", sum(count)::BIGINT AS lines", is_counted=False, of="ledger.LinesNotUnderstood",
    ),
    Problem(
        "deleted", 0, "image deleted", "images deleted", "SELECT * FROM image_gc_deletions",
        "'images' AS subject",
        lambda row: f"{row['count']} image{'s' if row['count'] > 1 else ''} deleted",
        of="images.ImageDeleted",
    ),
)  # fmt: skip
"""In the order of headlines and summaries; worst first, and those that did more harm first."""


def occurrences(kinds: Iterable[str]) -> str:
    """A query for all that went wrong of some kinds: node, kind, severity, seq and ts of each."""
    wanted = set(kinds)
    return " UNION ALL ".join(
        f"SELECT node, '{each.kind}' AS kind, {each.severity} AS severity, seq, ts"
        f" FROM ({each.rows})"
        for each in PROBLEMS
        if each.kind in wanted
    )
