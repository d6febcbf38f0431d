-- title: When was the node not ready, and what kept it from being so?
-- One row a time at which Ready was not True; troubles are those that the kubelet spoke of from two minutes before it to its end.
SELECT
    c.node,
    c.ts,
    c.until_ts,
    c.status,
    c.reason,
    c.message,
    list(t.trouble ORDER BY t.ts) FILTER (t.trouble IS NOT NULL) AS troubles,
    c.seq
FROM node_conditions AS c
LEFT JOIN node_troubles AS t
    ON t.node = c.node
    AND t.last_ts >= c.ts - INTERVAL 2 MINUTE
    AND t.ts <= coalesce(c.until_ts, t.ts)
WHERE c.condition = 'Ready' AND c.status <> 'True'
GROUP BY ALL
ORDER BY c.node, c.ts, c.seq;
