-- title: Which kubelets restart, or die again and again?
-- One row a node whose kubelet was started more than once, or is known to have died; deaths are ends other than being stopped.
-- param top BIGINT default 20: rows
SELECT
    n.pool,
    n.node,
    n.kubelet_version,
    count(*) FILTER (s.restart) AS restarts,
    count(*) FILTER (s.exit_reason <> 'stopped') AS deaths,
    round(min(epoch(s.exited_ts - s.ts)) FILTER (s.exit_reason <> 'stopped')) AS shortest_life_s,
    max(s.ts) AS last,
    arg_max(s.exit_message, s.seq) FILTER (s.exit_reason <> 'stopped') AS last_words
FROM kubelet_starts AS s
JOIN nodes AS n ON n.node = s.node
GROUP BY n.pool, n.node, n.kubelet_version
HAVING restarts > 0 OR deaths > 0
ORDER BY deaths DESC, restarts DESC, n.pool, n.node
LIMIT $top::BIGINT;
