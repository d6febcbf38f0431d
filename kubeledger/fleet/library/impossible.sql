-- title: Which versions, pools or nodes show decisions that the kubelet could not have taken?
-- One row a group and kind of decision, the most impossible ones first; the version is the one that ran when it decided. The node and record of the example are for `kubeledger show`.
-- param by VARCHAR default version: `version`, `pool`, `cluster` or `node`
-- param top BIGINT default 20: rows
WITH versions AS (
    -- Only where a version follows another one: so few that each verdict may look at all.
    SELECT
        node,
        kubelet_version,
        CASE WHEN lag(ts) OVER by_time IS NOT NULL THEN ts ELSE '-infinity' END AS since,
        coalesce(lead(ts) OVER by_time, 'infinity') AS until
    FROM (
        SELECT s.node, s.ts, s.kubelet_version
        FROM kubelet_starts AS s
        JOIN nodes AS n ON n.node = s.node AND len(n.kubelet_versions) > 1
        WHERE s.kubelet_version IS NOT NULL
        QUALIFY s.kubelet_version IS DISTINCT FROM
            lag(s.kubelet_version) OVER (PARTITION BY s.node ORDER BY s.ts)
    )
    WINDOW by_time AS (PARTITION BY node ORDER BY ts)
),

grouped AS (
    SELECT
        v.*,
        CASE $by
            WHEN 'version' THEN coalesce(s.kubelet_version, n.kubelet_version)
            WHEN 'pool' THEN n.pool
            WHEN 'cluster' THEN n.cluster
            WHEN 'node' THEN v.node
            ELSE error('by is version, pool, cluster or node')
        END AS name
    FROM verdicts AS v
    JOIN nodes AS n ON n.node = v.node
    LEFT JOIN versions AS s ON s.node = v.node AND v.ts >= s.since AND v.ts < s.until
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
ORDER BY impossible DESC, name, kind
LIMIT $top::BIGINT;
