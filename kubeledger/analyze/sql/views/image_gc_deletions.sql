-- Images that the kubelet removed.
-- kinds: images.ImageDeleted images.GarbageCollected images.GarbageCollectionStarted
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column run_seq BIGINT: seq of the run's row in `image_gc_runs`; NULL when the deletion belongs to no finished run
-- column image_id VARCHAR: ID of the image
-- column size_bytes BIGINT: its size; NULL when the source does not hold it
-- column pass VARCHAR: `space`, `age` or `all` (all unused images); NULL when not known
-- column cause_seq BIGINT: seq of the run's start; NULL when there is none
-- column cause VARCHAR: what made the kubelet remove images: the age limit, the disk's usage, or the resource that the eviction manager reclaimed; NULL when not known
-- column signals VARCHAR[]: signals of the eviction manager that were under their thresholds then, sorted; empty in other passes
CREATE VIEW image_gc_deletions AS
SELECT
    d.node,
    d.seq,
    d.ts,
    runs.seq AS run_seq,
    d.body ->> 'image_id' AS image_id,
    (d.body ->> 'size_bytes')::BIGINT AS size_bytes,
    d.body ->> 'pass' AS pass,
    d.cause_seq,
    CASE d.body ->> 'pass'
        WHEN 'age' THEN 'unused for longer than imageMaximumGCAge'
        WHEN 'space' THEN
            'disk usage of ' || (starts.body ->> 'usage_percent')
            || ' % is not under imageGCHighThresholdPercent '
            || (starts.body ->> 'high_threshold_percent')
        WHEN 'all' THEN
            coalesce(
                'eviction manager reclaims ' || (d.body ->> 'reclaimed'),
                'eviction manager reclaims node-level resources'
            )
    END AS cause,
    coalesce((d.body -> 'signals')::VARCHAR[], []) AS signals
FROM (SELECT * FROM records WHERE kind = 'images.ImageDeleted') AS d
-- Deletions and the end of their run have the start of the run as their common cause.
LEFT JOIN (
    SELECT node, cause_seq, min(seq) AS seq
    FROM records
    WHERE kind = 'images.GarbageCollected'
    GROUP BY node, cause_seq
) AS runs
    ON runs.node = d.node AND runs.cause_seq = d.cause_seq
LEFT JOIN (
    SELECT node, seq, body
    FROM records
    WHERE kind = 'images.GarbageCollectionStarted'
) AS starts
    ON starts.node = d.node AND starts.seq = d.cause_seq
ORDER BY d.node, d.seq;
