-- title: How many containers do probes kill an hour, pool by pool?
-- One row a pool and hour with at least one kill by a liveness or startup probe, the newest first.
SELECT
    n.pool,
    date_trunc('hour', k.ts) AS hour,
    count(*) AS kills,
    count(*) FILTER (k.reason = 'startup_probe') AS by_startup_probe,
    count(DISTINCT k.node) AS nodes,
    count(DISTINCT (k.node, k.pod_uid)) AS pods,
    mode(k.namespace || ' ' || k.container ORDER BY k.namespace, k.container) AS mostly
FROM container_kills AS k
JOIN nodes AS n ON n.node = k.node
WHERE k.reason IN ('liveness_probe', 'startup_probe')
GROUP BY n.pool, hour
ORDER BY hour DESC, kills DESC, n.pool;
