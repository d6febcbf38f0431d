-- Images that came and went, by node and hour. An hour without any of this has no row.
-- kinds: images.ImageDeleted images.GarbageCollected images.ImagesDetected node.KubeletStarted lifecycle.ReasonReported
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the first of these records on its node
-- column ts TIMESTAMP: beginning of the hour, UTC
-- column pulled BIGINT: pulls in the kubelet's events
-- column pull_failures BIGINT: pulls that failed, by its events
-- column appeared BIGINT: images that a detect pass saw for the first time; the first pass of a kubelet process, to which all images are new, is left out
-- column deleted BIGINT: images that the kubelet removed, rows of `image_gc_deletions`
-- column deleted_bytes BIGINT: their sizes together, of those whose size is known
-- column gc_failures BIGINT: image garbage collections that failed
CREATE VIEW image_churn_per_hour AS
WITH starts AS (SELECT node, ts_ns FROM records WHERE kind = 'node.KubeletStarted'),

passes AS (
    SELECT
        r.node,
        r.seq,
        r.ts,
        len(list_filter((r.body -> 'images')::JSON[], lambda i: (i ->> 'new')::BOOLEAN)) AS new,
        row_number() OVER (PARTITION BY r.node, s.ts_ns ORDER BY r.ts_ns, r.seq) AS place
    FROM records AS r
    ASOF LEFT JOIN starts AS s ON s.node = r.node AND s.ts_ns <= r.ts_ns
    WHERE r.kind = 'images.ImagesDetected'
),

changes AS (
    SELECT node, seq, ts, 'appeared' AS what, new AS count, NULL::BIGINT AS bytes
    FROM passes
    WHERE place > 1 AND new > 0
    UNION ALL
    SELECT node, seq, ts, 'deleted', 1, (body ->> 'size_bytes')::BIGINT
    FROM records
    WHERE kind = 'images.ImageDeleted'
    UNION ALL
    SELECT node, seq, ts, 'gc_failed', 1, NULL
    FROM records
    WHERE kind = 'images.GarbageCollected' AND body ->> 'outcome' = 'failed'
    UNION ALL
    SELECT
        node,
        seq,
        ts,
        CASE body ->> 'reason' WHEN 'Pulled' THEN 'pulled' ELSE 'pull_failed' END,
        coalesce((body ->> 'count')::BIGINT, 1),
        NULL
    FROM records
    WHERE
        kind = 'lifecycle.ReasonReported'
        AND (
            (body ->> 'reason' = 'Pulled' AND body ->> 'message' LIKE 'Successfully pulled image%')
            OR (body ->> 'reason' = 'Failed' AND body ->> 'message' LIKE 'Failed to pull image%')
        )
)

SELECT
    node,
    min(seq) AS seq,
    date_trunc('hour', ts) AS ts,
    coalesce(sum(count) FILTER (what = 'pulled'), 0)::BIGINT AS pulled,
    coalesce(sum(count) FILTER (what = 'pull_failed'), 0)::BIGINT AS pull_failures,
    coalesce(sum(count) FILTER (what = 'appeared'), 0)::BIGINT AS appeared,
    count(*) FILTER (what = 'deleted') AS deleted,
    coalesce(sum(bytes), 0)::BIGINT AS deleted_bytes,
    count(*) FILTER (what = 'gc_failed') AS gc_failures
FROM changes
GROUP BY node, date_trunc('hour', ts);
