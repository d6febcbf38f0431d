-- title: How full were the disks, over time?
-- The fullest reading of each filesystem in each span of time.
-- param per INTERVAL default 1 hour: length of the spans, e.g. 10 minutes
SELECT
    node,
    time_bucket($per::INTERVAL, ts) AS span,
    filesystem,
    max(used_percent) AS used_percent,
    round(min(available_bytes) / 1073741824, 2) AS least_free_gib,
    count(*) AS readings
FROM disk_usage
GROUP BY node, span, filesystem
ORDER BY node, span, filesystem;
