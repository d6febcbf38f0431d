-- title: Which probes flap, pool by pool?
-- One row a pool and container over all of its pods, the most changes first. A probe flaps if its result went both ways and changed at least so often.
-- param min_changes BIGINT default 3: of a container's probe to be counted
-- param top BIGINT default 20: rows
WITH probes AS (
    SELECT
        node,
        namespace,
        pod,
        container,
        probe_type,
        count(*) AS changes,
        count(*) FILTER (to_result = 'failure') AS failures,
        max(ts) AS last
    FROM probe_transitions
    GROUP BY ALL
    HAVING changes >= $min_changes::BIGINT AND count(DISTINCT to_result) > 1
)

SELECT
    n.pool,
    p.namespace,
    p.container,
    p.probe_type AS probe,
    sum(p.changes)::BIGINT AS changes,
    sum(p.failures)::BIGINT AS failures,
    count(*) AS probes,
    count(DISTINCT p.node) AS nodes,
    max_by(p.node || ' ' || p.pod, (p.changes, p.node, p.pod)) AS worst,
    max(p.last) AS last
FROM probes AS p
JOIN nodes AS n ON n.node = p.node
GROUP BY n.pool, p.namespace, p.container, p.probe_type
ORDER BY changes DESC, n.pool, p.namespace, p.container, probe
LIMIT $top::BIGINT;
