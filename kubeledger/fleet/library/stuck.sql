-- title: What keeps pods from starting, and on how many nodes?
-- One row a pool, stage of a pod's way and reason, those that hit most pods first; `open` are those that are still in it.
-- param top BIGINT default 50: rows
SELECT
    n.pool,
    s.stage,
    s.reason,
    count(DISTINCT (s.node, coalesce(s.pod_uid, s.namespace || '/' || s.pod))) AS pods,
    count(DISTINCT s.node) AS nodes,
    count(*) FILTER (s.passed_ts IS NULL AND s.ended_ts IS NULL) AS open,
    sum(s.attempts)::BIGINT AS attempts,
    min_by(s.message, (s.node, s.seq)) AS example
FROM pod_stages AS s
JOIN nodes AS n ON n.node = s.node
WHERE s.stage NOT IN ('admission', 'run', 'ready')
GROUP BY n.pool, s.stage, s.reason
ORDER BY pods DESC, n.pool, s.stage, s.reason
LIMIT $top::BIGINT;
