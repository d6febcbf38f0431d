-- title: Which devices are idle, and which are held by pods that ended?
-- One row a pool and resource, as of the end of each node's records. Idle: in the plugin's last list, and held by nobody. Stranded: not given back since their pod ended; the kubelet does that at the next admission.
-- param by VARCHAR default pool: `pool` or `node`
-- param top BIGINT default 20: rows
WITH listed AS (
    SELECT node, resource, unnest(arg_max(device_ids, seq)) AS device_id
    FROM device_reports
    WHERE device_ids IS NOT NULL
    GROUP BY node, resource
),

held AS (
    SELECT node, resource, device_id, bool_and(pod_terminated_ts IS NOT NULL) AS stranded
    FROM (
        SELECT node, resource, unnest(device_ids) AS device_id, pod_terminated_ts
        FROM device_allocations
        WHERE released_ts IS NULL
    )
    GROUP BY node, resource, device_id
)

SELECT
    n.pool,
    CASE $by WHEN 'node' THEN n.node WHEN 'pool' THEN NULL ELSE error('by is pool or node') END
        AS node,
    resource,
    count(l.device_id) AS devices,
    count(h.device_id) AS held,
    count(*) FILTER (h.stranded) AS stranded,
    count(*) FILTER (h.device_id IS NULL) AS idle,
    round(100 * idle / nullif(devices, 0)) AS idle_percent,
    count(DISTINCT n.node) AS nodes
FROM listed AS l
FULL JOIN held AS h USING (node, resource, device_id)
JOIN nodes AS n USING (node)
GROUP BY ALL
ORDER BY stranded DESC, idle DESC, n.pool, node, resource
LIMIT $top::BIGINT;
