-- title: Which versions, pools or nodes show decisions that the kubelet could not have taken?
-- One row a group and kind of decision, the most impossible ones first; the version is the one that ran when it decided. The node and record of the example are for `kubeledger show`.
-- param by VARCHAR default version: `version`, `pool`, `cluster` or `node`
WITH starts AS (
    SELECT node, ts, kubelet_version FROM kubelet_starts WHERE kubelet_version IS NOT NULL
),

grouped AS (
    SELECT
        v.*,
        CASE $by
            WHEN 'version' THEN coalesce(s.kubelet_version, n.kubelet_versions[1])
            WHEN 'pool' THEN n.pool
            WHEN 'cluster' THEN n.cluster
            WHEN 'node' THEN v.node
            ELSE error('by is version, pool, cluster or node')
        END AS name
    FROM verdicts AS v
    JOIN nodes AS n ON n.node = v.node
    ASOF LEFT JOIN starts AS s ON s.node = v.node AND s.ts <= v.ts
)

SELECT
    name AS "group",
    kind,
    count(*) FILTER (verdict = 'impossible') AS impossible,
    count(*) AS decisions,
    count(DISTINCT node) FILTER (verdict = 'impossible') AS nodes_impossible,
    count(DISTINCT node) AS nodes,
    min_by(node || ' ' || seq, (node, seq)) FILTER (verdict = 'impossible') AS example,
    min_by(why, (node, seq)) FILTER (verdict = 'impossible') AS why
FROM grouped
GROUP BY name, kind
HAVING impossible > 0
ORDER BY impossible DESC, name, kind;
