-- Pods that the eviction manager killed because the node ran short, or because they used too much local storage: one row an attempt. The manager may choose a pod again while it waits for its end: count the pods, not the rows.
-- kinds: lifecycle.PodEvicted eviction.ReclaimAttempted eviction.PodSpared
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of the evicted pod
-- column pod VARCHAR: its name
-- column pod_uid VARCHAR: its UID
-- column signal VARCHAR: whose threshold was met, e.g. `memory.available`; `emptydirfs.limit`, `ephemeralpodfs.limit` or `ephemeralcontainerfs.limit` for the pod's own limit of local storage; NULL when no source distinguishes it
-- column threshold BIGINT: its threshold, in bytes, inodes or processes by the signal; for local storage the limit
-- column observed BIGINT: what was available then, in the same unit
-- column kind VARCHAR: `hard`, `soft` (after its grace period), `allocatable` or `local_storage`; NULL when not known
-- column rank INTEGER[]: the pod's place in the ranking, 1 for the first to go; NULL where nothing was ranked, or no source says
-- column resource VARCHAR: what was short: `memory`, `ephemeral-storage`, `inodes` or `pids`; NULL for local storage
-- column grace_period_s INTEGER: seconds that its containers were given to end
-- column evicted BOOLEAN: true when the manager saw the pod end, false when it gave up waiting (the pod has failed all the same, and ends later), NULL when not known
-- column message VARCHAR: as in the pod's status
-- column since TIMESTAMP: when the threshold was first seen to be met, UTC
-- column ranked VARCHAR[]: all candidates as `namespace/name`, first to go first
-- column spared VARCHAR[]: critical pods whose turn it was before, as `namespace/name`
-- column cause_seq BIGINT: seq of the record that led to this one, see `reclaims`
CREATE VIEW evictions AS
SELECT
    e.node,
    e.seq,
    e.ts,
    e.body ->> 'namespace' AS namespace,
    e.body ->> 'pod' AS pod,
    e.body ->> 'pod_uid' AS pod_uid,
    e.body ->> 'signal' AS signal,
    (e.body ->> 'threshold')::BIGINT AS threshold,
    (e.body ->> 'observed')::BIGINT AS observed,
    e.body ->> 'threshold_kind' AS kind,
    CASE WHEN e.body ->> 'rank' IS NOT NULL THEN [(e.body ->> 'rank')::INTEGER] END AS rank,
    e.body ->> 'resource' AS resource,
    (e.body ->> 'grace_period_s')::INTEGER AS grace_period_s,
    (e.body ->> 'evicted')::BOOLEAN AS evicted,
    e.body ->> 'message' AS message,
    make_timestamp((e.body ->> 'since_ts_ns')::BIGINT // 1000) AS since,
    CASE WHEN r.body ->> 'ranked' IS NOT NULL THEN
        [(p ->> 'namespace') || '/' || (p ->> 'pod') FOR p IN (r.body -> 'ranked')::JSON[]]
    END AS ranked,
    (
        SELECT list((s.body ->> 'namespace') || '/' || (s.body ->> 'pod') ORDER BY s.seq)
        FROM records AS s
        WHERE s.kind = 'eviction.PodSpared' AND s.node = e.node AND s.cause_seq = e.cause_seq
    ) AS spared,
    e.cause_seq
FROM records AS e
LEFT JOIN records AS r
    ON r.kind = 'eviction.ReclaimAttempted' AND r.node = e.node AND r.seq = e.cause_seq
WHERE e.kind = 'lifecycle.PodEvicted';
