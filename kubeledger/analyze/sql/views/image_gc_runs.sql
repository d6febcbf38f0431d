-- Image garbage collections, one row a finished run. What the end of a run does not say is taken
-- from its start.
-- kinds: images.GarbageCollected images.GarbageCollectionStarted images.ImageDeleted node.KubeletStarted
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: end of the run, UTC, cut to microseconds
-- column usage_percent BIGINT: usage of the image filesystem, whole percent; NULL when the source does not hold it
-- column high_threshold_percent BIGINT: usage from which a run frees space
-- column low_threshold_percent BIGINT: usage to which it tries to come down
-- column bytes_to_free BIGINT: bytes the run was to free
-- column bytes_freed BIGINT: bytes it freed for `bytes_to_free`, as the kubelet counts them; images deleted for their age before are not among them
-- column images_removed BIGINT: deletions that the source shows for this run, for their age or for space
-- column outcome VARCHAR: `below_threshold` (nothing to do), `freed` (enough was freed) or `failed`
-- column error VARCHAR: the kubelet's error text; NULL without one
-- column cause_seq BIGINT: seq of the run's start; NULL when there is none
-- column old_images_removed BIGINT: of `images_removed` those for their age (imageMaximumGCAge), which come before the disk is looked at
-- column old_bytes_removed BIGINT: sizes of those, together
CREATE VIEW image_gc_runs AS
SELECT
    c.node,
    c.seq,
    c.ts,
    coalesce(c.body ->> 'usage_percent', s.body ->> 'usage_percent')::BIGINT AS usage_percent,
    coalesce(c.body ->> 'high_threshold_percent', s.body ->> 'high_threshold_percent')::BIGINT AS high_threshold_percent,
    coalesce(c.body ->> 'low_threshold_percent', s.body ->> 'low_threshold_percent')::BIGINT AS low_threshold_percent,
    coalesce(c.body ->> 'bytes_to_free', s.body ->> 'bytes_to_free')::BIGINT AS bytes_to_free,
    (c.body ->> 'bytes_freed')::BIGINT AS bytes_freed,
    coalesce((c.body ->> 'images_removed')::BIGINT, 0) AS images_removed,
    c.body ->> 'outcome' AS outcome,
    nullif(c.body ->> 'error', '') AS error,
    c.cause_seq,
    count(d.seq)::BIGINT AS old_images_removed,
    coalesce(sum((d.body ->> 'size_bytes')::BIGINT), 0)::BIGINT AS old_bytes_removed
FROM (
    SELECT *, lag(seq, 1, 0) OVER (PARTITION BY node ORDER BY seq) AS last_seq
    FROM records
    WHERE kind IN ('images.GarbageCollected', 'node.KubeletStarted')
) AS c
LEFT JOIN (SELECT * FROM records WHERE kind = 'images.GarbageCollectionStarted') AS s
    ON s.node = c.node AND s.seq = c.cause_seq
LEFT JOIN (
    SELECT * FROM records WHERE kind = 'images.ImageDeleted' AND (body ->> 'pass') = 'age'
) AS d
    ON d.node = c.node AND d.seq BETWEEN c.last_seq AND c.seq
WHERE c.kind = 'images.GarbageCollected'
GROUP BY ALL
ORDER BY c.node, c.seq;
