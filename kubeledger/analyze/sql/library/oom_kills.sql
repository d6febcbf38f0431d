-- title: Which containers ran out of memory, how often, and at which limit?
-- One row a container and limit. A kill without a kernel log has no process; its limit is of the cgroup's files or the spec.
SELECT
    node,
    namespace || '/' || pod AS pod,
    container,
    reason,
    limit_bytes,
    count(*) AS kills,
    list_sort(list(DISTINCT process) FILTER (process IS NOT NULL)) AS processes,
    max(rss_bytes) AS most_rss_bytes,
    min(ts) AS first,
    max(ts) AS last
FROM oom_kills
GROUP BY node, namespace, pod, container, reason, limit_bytes
ORDER BY node, kills DESC, pod, container, reason, limit_bytes;
