"""Occurrences of what goes wrong, as queries over the views: each has ``node``, ``seq``, ``ts``.

Each constant is a query, or a part of one that says so.
"""

from __future__ import annotations

from kubeledger.model.units import NS_PER_S
from kubeledger.replay.episodes.node_conditions import APART_NS, APART_OF_NS

CONTAINER = "concat_ws('/', namespace, pod, container) AS subject"
"""Columns: the container's whole name."""
POD = "concat_ws('/', namespace, pod)"
"""An expression: the pod's whole name."""
PODS = f"list({POD} ORDER BY seq) AS pods, arg_min({POD}, seq) AS about"
"""Columns: all pods of a group, and the first."""

HARMLESS_S = 30
"""Pods that waited no longer, and a node that was not ready so long, did nobody harm."""
NOT_ASKED_YET = "container runtime status check may not have completed yet"
"""Why no pod is synchronized by a kubelet that has just started."""
NO_STATS = "^(failed to get( imageFs info| image stats|$)|invalid capacity 0)"
"""How image GC fails before there are statistics of the disk."""
SILENT_MIN = 5
"""A kubelet says more often what goes on: mounts are tried every two minutes, pulls waited for."""


def _heard_at_the_end(of: str, silent_s: object = SILENT_MIN * 60) -> str:
    """A condition on a row of what is said again and again: it was until the records end."""
    latest = f"SELECT max(e.ts) FROM events AS e WHERE e.node = {of}.node"
    return f"{of}.last_ts >= ({latest}) - to_seconds({silent_s})"


# --- the node -----------------------------------------------------------------------------

NOT_READY = f"""SELECT c.*, epoch_ns(coalesce(c.until_ts, c.ts)) - epoch_ns(c.ts) AS lasted_ns
FROM node_conditions AS c
WHERE c.condition = 'Ready' AND c.status <> 'True' AND NOT (
    c.until_ts - c.ts < INTERVAL {HARMLESS_S} SECOND AND EXISTS (
        SELECT 1 FROM events AS k WHERE k.node = c.node AND k.kind = 'node.KubeletStarted'
            AND k.ts BETWEEN c.ts - INTERVAL 1 MINUTE AND c.until_ts)
) AND NOT EXISTS (
    SELECT 1 FROM events AS e WHERE e.node = c.node AND e.kind = 'node.ShutdownProgressed'
        AND e.ts BETWEEN c.ts - INTERVAL 1 MINUTE AND c.ts + INTERVAL 1 MINUTE)"""
"""Not those that a start or a shutdown brings along."""
_RARELY = " ".join(f"WHEN '{of}' THEN {ns // NS_PER_S}" for of, ns in APART_OF_NS.items())
_SILENT_S = f"CASE t.trouble {_RARELY} ELSE {APART_NS // NS_PER_S} END"
_GOES_ON = f"""t.passed_ts IS NULL AND {_heard_at_the_end("t", _SILENT_S)} AND NOT EXISTS (
        SELECT 1 FROM kubelet_starts AS k
            WHERE k.node = t.node AND k.from_start AND k.ts > t.last_ts)"""
"""Of a process that ended, what the next one does not say is over."""
MAY_MATTER = f"""(coalesce(passed_ts, last_ts) - ts >= INTERVAL {HARMLESS_S} SECOND
    OR passed_ts IS NULL)"""
"""A condition on a trouble: what is not so was over at once."""
TROUBLES = f"""SELECT t.*, epoch_ns(coalesce(t.passed_ts, t.last_ts)) - epoch_ns(t.ts) AS lasted_ns,
    {_GOES_ON} AS is_open
FROM node_troubles AS t
WHERE (coalesce(t.passed_ts, t.last_ts) - t.ts >= INTERVAL {HARMLESS_S} SECOND OR {_GOES_ON})
    AND NOT starts_with(t.message, '{NOT_ASKED_YET}')
    AND NOT contains(t.message, 'pleg was last seen active 2562047h')  -- never, up to 1.18
    AND NOT EXISTS (
        SELECT 1 FROM node_conditions AS c WHERE c.node = t.node
            AND c.condition = 'Ready' AND c.status <> 'True'
            AND c.ts <= t.last_ts + INTERVAL 1 MINUTE
            AND coalesce(c.until_ts, t.ts) >= t.ts - INTERVAL 1 MINUTE)
    AND NOT EXISTS (
        SELECT 1 FROM node_troubles AS o WHERE o.node = t.node
            AND o.ts <= t.last_ts AND coalesce(o.passed_ts, o.last_ts) >= t.ts
            AND (t.trouble = 'sync_skipped' AND o.trouble <> 'sync_skipped'
                OR o.trouble = 'api_unreachable' AND (
                    t.trouble IN (
                        'status_update_failed', 'lease_update_failed', 'registration_failed')
                    OR t.trouble = 'certificate' AND NOT regexp_matches(t.message, 'x509|expired')
                )
                OR o.trouble = 'registration_failed' AND t.trouble IN (
                    'status_update_failed', 'lease_update_failed', 'storage_not_ready')))"""
"""Those that a condition of the node does not tell, nor a trouble that they follow from, nor a
start of the kubelet."""
KUBELET_DEATHS = """SELECT node, seq, ts, body ->> 'pid' AS pid, body ->> 'message' AS message
FROM events WHERE kind = 'node.KubeletExited' AND body ->> 'reason' <> 'stopped'"""
IMPOSSIBLE = "SELECT * FROM verdicts WHERE verdict = 'impossible' AND NOT inferred"
OUT_OF_MEMORY = f"""SELECT *, body ->> 'invoked_by' AS asked, coalesce(asked,
    nullif({POD}, ''), 'pod ' || pod_uid, body ->> 'cgroup', 'the node') AS subject
FROM events AS e
WHERE kind = 'oom.OutOfMemory' AND NOT EXISTS (
    SELECT 1 FROM events AS k WHERE k.node = e.node AND k.cause_seq = e.seq
        AND k.kind = 'oom.ProcessKilled')"""
GC_FAILED = f"""SELECT * FROM image_gc_runs AS r WHERE outcome = 'failed' AND NOT (
    regexp_matches(error, '{NO_STATS}') AND NOT EXISTS (SELECT 1 FROM image_gc_runs AS o
        WHERE o.node = r.node AND o.outcome = 'failed' AND o.seq <> r.seq
            AND o.ts BETWEEN r.ts - INTERVAL 10 MINUTE AND r.ts + INTERVAL 10 MINUTE))"""
"""Not the one without statistics yet: a kubelet sends an event of it only if it fails again."""
RECLAIM_FAILED = """SELECT * FROM reclaims AS r
WHERE outcome = 'nothing' OR outcome IS NULL AND NOT EXISTS (
    SELECT 1 FROM evictions AS e WHERE e.node = r.node AND e.cause_seq = r.seq)"""
RECLAIMED = "SELECT * FROM reclaims WHERE outcome = 'node_level'"
PRESSURE = "SELECT * FROM node_conditions WHERE condition <> 'Ready' AND status = 'True'"
_STEPS = """(SELECT node, seq, ts, body ->> 'step' AS step FROM events
    WHERE kind = 'node.ShutdownProgressed')"""
SHUTDOWNS = f"""SELECT e.*, count(*) FILTER (t.step = 'timed_out') AS late,
    coalesce(bool_or(t.step = 'completed'), false) AS completed
FROM {_STEPS} AS e LEFT JOIN {_STEPS} AS t ON t.node = e.node AND t.seq > e.seq
WHERE e.step = 'detected' GROUP BY ALL"""
"""Whether the kubelet let it go on, and how many groups of pods were late."""
REBOOTS = "SELECT * FROM kubernetes_events WHERE object_kind = 'Node' AND reason = 'Rebooted'"
KUBELET_RESTARTS = "SELECT * FROM kubelet_starts WHERE restart"
FINDINGS = "SELECT * FROM findings WHERE NOT starts_with(finding, 'clock_')"


def of_kind(kind: str) -> str:
    """All records of a kind."""
    return f"SELECT * FROM events WHERE kind = '{kind}'"


# --- pods ---------------------------------------------------------------------------------

_STAGES = f"""SELECT p.*, {POD.replace("pod)", "coalesce(pod, pod_uid))")} AS name,
    coalesce(
        CASE WHEN stage IN ('image', 'create', 'resources') THEN about END,
        regexp_replace(message, '"[^"]*"|[0-9a-f-]*[0-9][0-9a-f-]*', '#', 'g')
    ) AS cause,
    ended_ts IS NOT NULL AS is_ended,
    epoch_ns(coalesce(passed_ts, ended_ts, last_ts)) - epoch_ns(p.ts) AS lasted_ns,
    passed_ts IS NULL AND (ended_ts IS NOT NULL OR {_heard_at_the_end("p")}) AS is_stuck
FROM pod_stages AS p"""
BEFORE_START = """stage NOT IN ('run', 'ready', 'stop', 'teardown') AND NOT EXISTS (
    SELECT 1 FROM events AS r WHERE r.node = s.node AND r.kind = 'lifecycle.PodRejected'
        AND (r.pod_uid = s.pod_uid OR (r.namespace, r.pod) = (s.namespace, s.pod))
        AND (r.ts <= s.ts OR s.stage = 'admission'))"""
"""A condition on ``s``: refusals are told by themselves, and what a refused pod lacks is moot."""
_LONG = f"lasted_ns >= {HARMLESS_S * NS_PER_S}"
_RAN_BEFORE = """EXISTS (SELECT 1 FROM container_states AS c
    WHERE c.node = s.node AND c.pod_uid = s.pod_uid AND c.state = 'started' AND c.ts < s.ts
        AND NOT coalesce(c.sandbox, false) AND c.container = coalesce(s.container, c.container))"""
STUCK = f"""SELECT *, {_RAN_BEFORE} AS ran FROM ({_STAGES}) AS s
WHERE is_stuck AND {BEFORE_START} AND ({_LONG} OR NOT is_ended OR NOT ran)"""
WAITED = f"""SELECT * FROM ({_STAGES}) AS s WHERE NOT is_stuck AND {BEFORE_START}
    AND ({_LONG} OR passed_ts IS NULL)"""
NOT_ENDED = f"""SELECT * FROM ({_STAGES})
WHERE stage IN ('stop', 'teardown') AND (is_stuck OR {_LONG})"""
EPISODES = """arg_min(name, (ts, seq)) AS subject, list(name ORDER BY ts, seq) AS pods,
    sum(attempts)::BIGINT AS attempts, arg_min(reason, (ts, seq)) AS reason,
    arg_min(message, (ts, seq)) AS message, arg_min(about, (ts, seq)) AS about_what,
    max(lasted_ns) AS lasted_ns"""
"""Columns: what alike stages of several pods have in common."""

FAILED = """SELECT node, min(seq) AS seq, min(ts) AS ts, namespace, pod, pod_uid,
    any_value(body ->> '$.status.reason') AS reason,
    any_value(body ->> '$.status.message') AS message,
    list_sort(list_distinct(flatten(list(json_extract_string(
        body, '$.status.containerStatuses[*].state.terminated.exitCode'))))) AS codes
FROM events AS e
WHERE kind = 'lifecycle.PodListed' AND body ->> '$.status.phase' = 'Failed'
    AND coalesce(body ->> '$.status.reason', '') NOT IN ('NodeShutdown', 'Shutdown', 'Terminated')
    AND NOT EXISTS (
        SELECT 1 FROM events AS k WHERE k.node = e.node AND k.pod_uid = e.pod_uid AND (k.kind IN (
            'lifecycle.PodEvicted', 'lifecycle.PodRejected', 'preemption.PodPreempted',
            'oom.ProcessKilled')
            OR e.body ->> '$.status.reason' IS NULL AND (k.kind = 'lifecycle.ContainerKilled'
                OR k.kind = 'lifecycle.PodTerminating' AND k.body ->> 'reason' <> 'ended'
                    AND k.ts <= e.ts)))
    AND (e.body ->> '$.status.reason' IS NOT NULL OR NOT EXISTS (SELECT 1 FROM pod_stages AS s
        WHERE s.node = e.node AND s.pod_uid = e.pod_uid AND s.stage = 'run'))
GROUP BY node, namespace, pod, pod_uid"""
"""Pods that came to an end in error by themselves, as lists show them: none that was stopped, or
of which it is told that its containers crash; what the kubelet kills for a reason of the pod's
(``DeadlineExceeded``) is told by that."""
EVICTED = f"""SELECT *, {POD} AS name, bool_and(NOT coalesce(evicted, true)) OVER its AS late
FROM evictions
WINDOW its AS (PARTITION BY node, coalesce(pod_uid, {POD}))
QUALIFY row_number() OVER (PARTITION BY node, coalesce(pod_uid, {POD}) ORDER BY seq) = 1"""
"""A pod counts once, and also if the manager did not wait for its end: it had failed then."""
REFUSED = "SELECT * FROM admissions WHERE NOT admitted"
RESIZES = """SELECT * FROM resizes QUALIFY outcome IN ('deferred', 'infeasible')
    AND row_number() OVER (
        PARTITION BY node, coalesce(pod_uid, namespace || '/' || pod) ORDER BY seq DESC) = 1"""

_PROBE_KILL = "reason IN ('liveness_probe', 'startup_probe', 'post_start_hook')"
_BACK_OFFS = """(SELECT node, pod_uid, container, max(back_off_s) AS back_off_s
    FROM restart_backoffs GROUP BY ALL)"""
_DEATHS = """(SELECT node, pod_uid, container, count(*) AS deaths,
        arg_min(exit_code, seq) AS exit_code
    FROM container_states AS c
    WHERE state = 'died' AND exit_code <> 0 AND cause_seq IS NULL AND NOT coalesce(sandbox, false)
        AND NOT (exit_code = 137 AND EXISTS (SELECT 1 FROM events AS o
            WHERE o.node = c.node AND o.pod_uid = c.pod_uid AND o.container = c.container
                AND o.kind = 'oom.ProcessKilled'))
    GROUP BY ALL)"""
KILLED = f"""SELECT k.*, back_off_s FROM container_kills AS k
LEFT JOIN {_BACK_OFFS} USING (node, pod_uid, container) WHERE {_PROBE_KILL}"""
CRASHED = f"""SELECT s.*, b.back_off_s, d.deaths, d.exit_code
FROM pod_stages AS s
LEFT JOIN {_BACK_OFFS} AS b USING (node, pod_uid, container)
LEFT JOIN {_DEATHS} AS d USING (node, pod_uid, container)
WHERE s.stage = 'run' AND (d.deaths IS NOT NULL OR NOT EXISTS (
    SELECT 1 FROM (
        SELECT node, pod_uid, container FROM container_kills WHERE {_PROBE_KILL}
        UNION ALL SELECT node, pod_uid, container FROM events WHERE kind = 'oom.ProcessKilled'
    ) AS k WHERE k.node = s.node AND k.pod_uid = s.pod_uid AND k.container = s.container))"""
"""Containers that fail by themselves; what a probe or the kernel killed is told by that."""
UNREADY = """SELECT node, seq, ts, namespace, pod, container, 'ceased' AS form
FROM probe_transitions
WHERE probe_type = 'readiness' AND to_result = 'failure' AND from_result = 'success'
UNION ALL
SELECT node, seq, ts, namespace, pod, container,
    CASE WHEN EXISTS (SELECT 1 FROM container_states AS c WHERE c.node = s.node
            AND c.pod_uid = s.pod_uid AND c.container = s.container AND c.state = 'started')
        THEN 'never' ELSE 'failing' END
FROM pod_stages AS s
WHERE stage = 'ready' AND passed_ts IS NULL AND ended_ts IS NULL AND NOT EXISTS (
    SELECT 1 FROM probe_transitions AS t WHERE t.node = s.node AND t.pod_uid = s.pod_uid
        AND t.container = s.container AND t.to_result = 'success')"""
