-- title: Which nodes and pools are under eviction pressure?
-- One row a node and signal, the most evictions first: attempts to get resources back, pods evicted for it, how often the node began to report pressure. A pod's own limit of local storage is a signal of its own.
-- param top BIGINT default 20: rows
WITH evicted AS (
    SELECT
        node,
        signal,
        count(*) FILTER (evicted IS DISTINCT FROM false) AS evictions,
        count(*) FILTER (evicted IS FALSE) AS failed,
        count(DISTINCT namespace) AS namespaces,
        max(ts) AS last
    FROM evictions
    GROUP BY node, signal
),

tried AS (SELECT node, signal, count(*) AS reclaims, max(ts) AS last FROM reclaims GROUP BY ALL),

pressures AS (
    SELECT
        node,
        count(*) FILTER (len(conditions) > len(before)) AS pressures
    FROM (
        SELECT
            node,
            conditions,
            coalesce(lag(conditions) OVER (PARTITION BY node ORDER BY ts, seq), []) AS before
        FROM pressure_conditions
    )
    GROUP BY node
)

SELECT
    n.pool,
    n.node,
    signal,
    coalesce(e.evictions, 0) AS evictions,
    coalesce(e.failed, 0) AS failed,
    coalesce(e.namespaces, 0) AS namespaces,
    coalesce(t.reclaims, 0) AS reclaims,
    coalesce(p.pressures, 0) AS times_under_pressure,
    greatest(e.last, t.last) AS last
FROM evicted AS e
FULL JOIN tried AS t USING (node, signal)
JOIN nodes AS n USING (node)
LEFT JOIN pressures AS p USING (node)
ORDER BY evictions DESC, reclaims DESC, n.pool, n.node, signal
LIMIT $top::BIGINT;
