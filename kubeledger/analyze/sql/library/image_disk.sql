-- title: How full was the image filesystem?
-- Usage as image GC rounds it, next to the runs' own thresholds in `image_gc_runs`.
SELECT
    node,
    ts,
    100 - available_bytes * 100 // capacity_bytes AS usage_percent,
    available_bytes,
    capacity_bytes,
    source,
    seq
FROM image_fs
ORDER BY node, seq;
