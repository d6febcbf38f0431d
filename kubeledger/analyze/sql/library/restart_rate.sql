-- title: Which pods restart, how often, and when?
-- Restarts of a pod's containers in each span of time, the most first.
-- param per INTERVAL default 1 hour: length of the spans, e.g. 10 minutes
SELECT
    node,
    time_bucket($per::INTERVAL, ts) AS span,
    namespace || '/' || pod AS pod,
    count(*) AS restarts,
    list_sort(list(DISTINCT reason) FILTER (reason IS NOT NULL)) AS reasons
FROM container_restarts
GROUP BY node, span, namespace, pod
ORDER BY restarts DESC, node, span, namespace, pod;
