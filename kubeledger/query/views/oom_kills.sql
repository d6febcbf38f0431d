-- Processes that the kernel killed because memory ran out.
-- kinds: oom.ProcessKilled
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds; the end of the container where only its status tells
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
-- column limit_bytes BIGINT: limit of `cgroup`; NULL without a kernel log, and for the node's memory
-- column oom_score_adj INTEGER: its adjustment; NULL without a kernel log
-- column reason VARCHAR: `container_limit`, `pod_limit` or `node`; NULL when no source tells
-- column also_killed BIGINT[]: IDs of the processes killed with it (`memory.oom.group`)
-- column cause_seq BIGINT: seq of the `oom.OutOfMemory` with the kernel's table of processes
CREATE VIEW oom_kills AS
SELECT
    node,
    seq,
    ts,
    body ->> 'namespace' AS namespace,
    body ->> 'pod' AS pod,
    body ->> 'pod_uid' AS pod_uid,
    body ->> 'container' AS container,
    body ->> 'container_id' AS container_id,
    body ->> 'cgroup' AS cgroup,
    body ->> 'task_cgroup' AS task_cgroup,
    body ->> 'process' AS process,
    (body ->> 'pid')::BIGINT AS pid,
    (body ->> 'rss_bytes')::BIGINT AS rss_bytes,
    (body ->> 'limit_bytes')::BIGINT AS limit_bytes,
    (body ->> 'oom_score_adj')::INTEGER AS oom_score_adj,
    body ->> 'reason' AS reason,
    (body -> 'also_killed')::BIGINT[] AS also_killed,
    cause_seq
FROM records
WHERE kind = 'oom.ProcessKilled';
