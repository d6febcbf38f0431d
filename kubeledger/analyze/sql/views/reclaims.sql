-- Attempts of the eviction manager to get resources back: one row each, whether a pod had to go or not.
-- kinds: eviction.ReclaimAttempted
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
CREATE VIEW reclaims AS
SELECT
    node,
    seq,
    ts,
    body ->> 'resource' AS resource,
    body ->> 'signal' AS signal,
    (body ->> 'threshold')::BIGINT AS threshold,
    (body ->> 'observed')::BIGINT AS observed,
    body ->> 'threshold_kind' AS kind,
    make_timestamp((body ->> 'since_ts_ns')::BIGINT // 1000) AS since,
    body ->> 'outcome' AS outcome,
    CASE WHEN body ->> 'ranked' IS NOT NULL THEN
        [(p ->> 'namespace') || '/' || (p ->> 'pod') FOR p IN (body -> 'ranked')::JSON[]]
    END AS ranked
FROM records
WHERE kind = 'eviction.ReclaimAttempted';
