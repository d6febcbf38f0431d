-- title: Which probes flap, and when?
-- Changes of a probe's result in each span of time, where it went both ways; the most first.
-- param per INTERVAL default 1 hour: length of the spans, e.g. 10 minutes
SELECT
    node,
    time_bucket($per::INTERVAL, ts) AS span,
    namespace || '/' || pod || '/' || container AS container,
    probe_type AS probe,
    count(*) AS changes,
    count(*) FILTER (to_result = 'failure') AS failures
FROM probe_transitions
GROUP BY node, span, namespace, pod, container, probe_type
HAVING count(DISTINCT to_result) > 1
ORDER BY changes DESC, node, span, namespace, pod, container, probe_type;
