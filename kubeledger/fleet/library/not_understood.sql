-- title: Which log lines were not understood, and on how many nodes?
-- One row a shape of line, the most frequent first; `nodes` has the count of each node.
-- param top BIGINT default 20: rows
SELECT
    u.shape,
    sum(u.count)::BIGINT AS lines,
    count(DISTINCT u.node) AS nodes,
    list_sort(list(DISTINCT n.kubelet_version)) AS kubelet_versions,
    max_by(u.node, (u.count, u.node)) AS worst_node,
    min_by(u.example, (u.node, u.seq)) AS example
FROM not_understood AS u
JOIN nodes AS n ON n.node = u.node
GROUP BY u.shape
ORDER BY lines DESC, u.shape
LIMIT $top::BIGINT;
