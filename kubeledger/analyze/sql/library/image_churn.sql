-- title: How many images came and went, hour by hour?
-- Pulls by the kubelet's events, new images by its detect passes, and what image GC removed.
SELECT
    node,
    ts AS hour,
    pulled,
    pull_failures,
    appeared,
    deleted,
    round(deleted_bytes / 1048576, 1) AS deleted_mib,
    gc_failures
FROM image_churn_per_hour
ORDER BY node, ts;
