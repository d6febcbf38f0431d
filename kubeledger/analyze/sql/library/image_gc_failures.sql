-- title: Which image garbage collections failed, and what did they delete anyway?
-- One row a failed run; `image_deletions` names the images.
SELECT
    r.node,
    r.ts,
    r.usage_percent,
    r.high_threshold_percent AS high_threshold,
    r.bytes_to_free,
    r.bytes_freed,
    count(d.seq) AS images_deleted,
    r.seq,
    r.error
FROM image_gc_runs AS r
LEFT JOIN image_gc_deletions AS d ON d.node = r.node AND d.run_seq = r.seq
WHERE r.outcome = 'failed'
GROUP BY ALL
ORDER BY r.node, r.seq;
