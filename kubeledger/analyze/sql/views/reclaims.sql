-- Attempts of the eviction manager to get resources back: one row each, whether a pod had to go or not.
-- kinds: eviction.ReclaimAttempted eviction.PodSpared
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column resource VARCHAR: what was short: `memory`, `ephemeral-storage`, `inodes` or `pids`; NULL when no source says
-- column signal VARCHAR: whose threshold was met; NULL when no source distinguishes it
-- column threshold BIGINT: its threshold, in bytes, inodes or processes by the signal
-- column observed BIGINT: what was available then, in the same unit
-- column kind VARCHAR: `hard`, `soft` (after its grace period) or `allocatable`; NULL when not known
-- column since TIMESTAMP: when the threshold was first seen to be met, UTC
-- column outcome VARCHAR: `node_level` (deleting what was unused sufficed), `evicting` (a pod was chosen), `nothing` (no pod could be evicted); NULL when the source ends before that
-- column ranked VARCHAR[]: all candidates as `namespace/name`, first to go first; NULL when no ranking is known
-- column spared VARCHAR[]: critical pods whose turn it was and that were left alone, as `namespace/name`
CREATE VIEW reclaims AS
SELECT
    r.node,
    r.seq,
    r.ts,
    r.body ->> 'resource' AS resource,
    r.body ->> 'signal' AS signal,
    (r.body ->> 'threshold')::BIGINT AS threshold,
    (r.body ->> 'observed')::BIGINT AS observed,
    r.body ->> 'threshold_kind' AS kind,
    make_timestamp((r.body ->> 'since_ts_ns')::BIGINT // 1000) AS since,
    r.body ->> 'outcome' AS outcome,
    CASE WHEN r.body ->> 'ranked' IS NOT NULL THEN
        [(p ->> 'namespace') || '/' || (p ->> 'pod') FOR p IN (r.body -> 'ranked')::JSON[]]
    END AS ranked,
    (
        SELECT list((s.body ->> 'namespace') || '/' || (s.body ->> 'pod') ORDER BY s.seq)
        FROM records AS s
        WHERE s.kind = 'eviction.PodSpared' AND s.node = r.node AND s.cause_seq = r.seq
    ) AS spared
FROM records AS r
WHERE r.kind = 'eviction.ReclaimAttempted';
