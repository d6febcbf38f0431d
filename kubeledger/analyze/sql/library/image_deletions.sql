-- title: Which images were deleted, by which run, and how big were they?
-- One row an image; `run_bytes` is the sum over its run so far. Deletions outside a finished run have no run.
SELECT
    d.node,
    d.ts,
    d.image_id,
    d.size_bytes,
    d.run_seq,
    r.outcome AS run_outcome,
    CASE WHEN d.run_seq IS NOT NULL
        THEN sum(d.size_bytes) OVER (PARTITION BY d.node, d.run_seq ORDER BY d.seq)
    END::BIGINT AS run_bytes,
    d.seq
FROM image_gc_deletions AS d
LEFT JOIN image_gc_runs AS r ON r.node = d.node AND r.seq = d.run_seq
ORDER BY d.node, d.seq;
