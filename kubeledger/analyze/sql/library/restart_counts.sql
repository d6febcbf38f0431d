-- title: Which containers restarted, how often and why?
-- One row a container and reason, the most restarts first.
SELECT
    node,
    namespace || '/' || pod AS pod,
    container,
    reason,
    count(*) AS restarts,
    min(ts) AS first,
    max(ts) AS last
FROM container_restarts
GROUP BY ALL
ORDER BY restarts DESC, node, pod, container, reason;
