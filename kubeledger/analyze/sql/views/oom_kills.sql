-- Processes that the kernel killed because memory ran out.
-- kinds: oom.ProcessKilled cgroups.CgroupUpdated lifecycle.PodListed
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds; the end of the container where only its status shows it
-- column namespace VARCHAR: namespace of the pod; NULL for a process outside of pods
-- column pod VARCHAR: name of the pod; NULL as above
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it (a static pod's hash)
-- column container VARCHAR: name of the container that the process ran in
-- column container_id VARCHAR: ID of the container
-- column cgroup VARCHAR: whose limit was reached, path below the controller; NULL for the node's memory, and when not known
-- column task_cgroup VARCHAR: where the process ran
-- column process VARCHAR: name of the process, cut to 15 characters by the kernel; NULL without a kernel log
-- column pid BIGINT: its ID as the node sees it; NULL without a kernel log
-- column rss_bytes BIGINT: memory it had; NULL without a kernel log
-- column limit_bytes BIGINT: limit of `cgroup`; NULL where `limit_source` is
-- column limit_source VARCHAR: `kernel` (its log), `cgroup_files` (a snapshot of the cgroup, the last before or else the first after) or `spec` (the container's limit in the pod's spec); NULL where none says, and for the node's memory
-- column oom_score_adj INTEGER: its adjustment; NULL without a kernel log
-- column reason VARCHAR: `container_limit`, `pod_limit` or `node` (its own memory, not the limit of all pods); NULL when no source says, and for the limit of no pod, which `cgroup` shows
-- column also_killed BIGINT[]: IDs of the processes killed with it (`memory.oom.group`)
-- column cause_seq BIGINT: seq of the `oom.OutOfMemory` with the kernel's table of processes
CREATE VIEW oom_kills AS
WITH kills AS MATERIALIZED (
    SELECT *, body ->> 'cgroup' AS cgroup, body ->> 'limit_bytes' IS NULL AS unreported
    FROM records
    WHERE kind = 'oom.ProcessKilled'
),

by_files AS (
    SELECT
        k.node,
        k.seq,
        coalesce(
            arg_max(c.limit_bytes, c.ts_ns) FILTER (c.ts_ns <= k.ts_ns),
            arg_min(c.limit_bytes, c.ts_ns)
        ) AS limit_bytes
    FROM kills AS k
    JOIN (
        SELECT node, ts_ns, fields[1] AS cgroup, fields[2]::BIGINT AS limit_bytes
        FROM (
            SELECT
                node,
                ts_ns,
                json_extract_string(body, ['$.cgroup', '$.memory_limit_bytes']) AS fields
            FROM records
            WHERE
                kind = 'cgroups.CgroupUpdated'
                AND node IN (SELECT node FROM kills WHERE unreported)
        )
    ) AS c ON c.node = k.node AND c.cgroup = k.cgroup
    -- Above that is what a kernel takes for no limit.
    WHERE k.unreported AND c.limit_bytes BETWEEN 1 AND (1::BIGINT << 60)
    GROUP BY k.node, k.seq
),

by_spec AS (
    SELECT
        k.node,
        k.seq,
        arg_max(
            (number * MAP {
                '': 1, 'k': 1e3, 'M': 1e6, 'G': 1e9, 'T': 1e12,
                'Ki': 1 << 10, 'Mi': 1 << 20, 'Gi': 1 << 30, 'Ti': 1::BIGINT << 40
            }[unit])::BIGINT,
            s.ts_ns
        ) AS limit_bytes
    FROM kills AS k
    JOIN (
        SELECT
            node,
            ts_ns,
            pod_uid,
            c ->> 'name' AS container,
            try_cast(regexp_extract(amount, '^([0-9.]+)', 1) AS DOUBLE) AS number,
            regexp_extract(amount, '^[0-9.]+(.*)$', 1) AS unit
        FROM (
            SELECT
                node,
                ts_ns,
                pod_uid,
                unnest(
                    coalesce((body -> 'spec' -> 'containers')::JSON[], [])
                    || coalesce((body -> 'spec' -> 'initContainers')::JSON[], [])
                ) AS c,
                c -> 'resources' -> 'limits' ->> 'memory' AS amount
            FROM stored.rows
            WHERE
                kind = 'lifecycle.PodListed'
                -- Before specs are parsed, of which there are many.
                AND (node, pod_uid) IN (SELECT (node, body ->> 'pod_uid') FROM kills WHERE unreported)
        )
        WHERE amount IS NOT NULL
    ) AS s
        ON s.node = k.node
        AND s.pod_uid = (k.body ->> 'pod_uid')
        AND s.container = (k.body ->> 'container')
    WHERE k.unreported AND (k.body ->> 'reason') = 'container_limit' AND s.number IS NOT NULL
    GROUP BY k.node, k.seq
)

SELECT
    k.node,
    k.seq,
    k.ts,
    k.body ->> 'namespace' AS namespace,
    k.body ->> 'pod' AS pod,
    k.body ->> 'pod_uid' AS pod_uid,
    k.body ->> 'container' AS container,
    k.body ->> 'container_id' AS container_id,
    k.body ->> 'cgroup' AS cgroup,
    k.body ->> 'task_cgroup' AS task_cgroup,
    k.body ->> 'process' AS process,
    (k.body ->> 'pid')::BIGINT AS pid,
    (k.body ->> 'rss_bytes')::BIGINT AS rss_bytes,
    coalesce((k.body ->> 'limit_bytes')::BIGINT, f.limit_bytes, s.limit_bytes) AS limit_bytes,
    CASE
        WHEN k.body ->> 'limit_bytes' IS NOT NULL THEN 'kernel'
        WHEN f.limit_bytes IS NOT NULL THEN 'cgroup_files'
        WHEN s.limit_bytes IS NOT NULL THEN 'spec'
    END AS limit_source,
    (k.body ->> 'oom_score_adj')::INTEGER AS oom_score_adj,
    k.body ->> 'reason' AS reason,
    (k.body -> 'also_killed')::BIGINT[] AS also_killed,
    k.cause_seq
FROM kills AS k
LEFT JOIN by_files AS f ON f.node = k.node AND f.seq = k.seq
LEFT JOIN by_spec AS s ON s.node = k.node AND s.seq = k.seq
ORDER BY k.node, k.seq;
