-- What pods used, from readings of `/stats/summary`: one row a pod and reading.
-- kinds: eviction.PodUsageObserved
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: its name
-- column pod_uid VARCHAR: its UID
-- column memory_bytes BIGINT: working set of the pod
-- column memory_ts TIMESTAMP: when that was sampled, UTC
-- column processes BIGINT: how many ran in it
-- column storage_bytes BIGINT: its local storage: writable layers, logs and volumes
CREATE VIEW pod_usage AS
SELECT
    r.node,
    r.seq,
    r.ts,
    p ->> 'namespace' AS namespace,
    p ->> 'pod' AS pod,
    p ->> 'pod_uid' AS pod_uid,
    (p ->> 'memory_bytes')::BIGINT AS memory_bytes,
    make_timestamp((p ->> 'memory_ts_ns')::BIGINT // 1000) AS memory_ts,
    (p ->> 'processes')::BIGINT AS processes,
    (p ->> 'storage_bytes')::BIGINT AS storage_bytes
FROM (
    SELECT node, seq, ts, unnest((body -> 'pods')::JSON[]) AS p
    FROM records
    WHERE kind = 'eviction.PodUsageObserved'
) AS r;
