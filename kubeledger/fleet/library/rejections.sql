-- title: Why are pods rejected, pool by pool?
-- One row a pool and reason, the most frequent first.
SELECT
    n.pool,
    a.reason,
    count(*) AS rejections,
    count(DISTINCT a.node) AS nodes,
    count(DISTINCT (a.node, a.pod_uid)) AS pods,
    min_by(a.message, (a.node, a.seq)) AS example
FROM admissions AS a
JOIN nodes AS n ON n.node = a.node
WHERE NOT a.admitted
GROUP BY n.pool, a.reason
ORDER BY rejections DESC, n.pool, a.reason;
