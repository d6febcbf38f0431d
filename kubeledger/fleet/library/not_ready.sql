-- title: Which nodes were not ready, how long, and why?
-- One row a node, the longest first; a time that has not ended counts up to the node's last record.
SELECT
    n.pool,
    c.node,
    count(*) AS times,
    round(sum(epoch(coalesce(c.until_ts, n.last_ts) - c.ts)) / 60, 1) AS minutes,
    min(c.ts) AS first,
    max(c.ts) AS last,
    min_by(coalesce(c.message, c.reason), c.seq) AS first_cause
FROM node_conditions AS c
JOIN nodes AS n ON n.node = c.node
WHERE c.condition = 'Ready' AND c.status <> 'True'
GROUP BY n.pool, c.node
ORDER BY minutes DESC, c.node;
