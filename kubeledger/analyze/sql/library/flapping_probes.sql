-- title: Which probes flap?
-- Containers whose cached probe result went back and forth, the worst first.
-- param min_changes BIGINT default 3: least number of changes to be listed
SELECT
    node,
    namespace || '/' || pod AS pod,
    container,
    probe_type,
    count(*) AS changes,
    count(*) FILTER (to_result = 'failure') AS failures,
    min(ts) AS first,
    max(ts) AS last
FROM probe_transitions
GROUP BY ALL
HAVING changes >= $min_changes::BIGINT AND count(DISTINCT to_result) > 1
ORDER BY changes DESC, node, pod, container, probe_type;
