-- title: Which image garbage collections failed, and what did they delete anyway?
-- One row a failed run.
SELECT
    r.node,
    r.ts,
    r.usage_percent,
    r.high_threshold_percent,
    r.bytes_to_free,
    r.bytes_freed,
    count(d.seq) AS images_deleted,
    list(d.image_id ORDER BY d.seq) FILTER (d.image_id IS NOT NULL) AS image_ids,
    r.error,
    r.seq
FROM image_gc_runs AS r
LEFT JOIN image_gc_deletions AS d ON d.node = r.node AND d.run_seq = r.seq
WHERE r.outcome = 'failed'
GROUP BY ALL
ORDER BY r.node, r.seq;
