-- title: Which images are pulled again and again on a node?
-- One row an image over all nodes, by the kubelet's events; what is pulled a second time on a node was deleted there, or is always pulled (imagePullPolicy).
-- param min_pulls BIGINT default 2: on a node, to be counted
-- param top BIGINT default 20: rows
WITH pulls AS (
    SELECT
        node,
        regexp_extract(message, '^Successfully pulled image "([^"]+)"', 1) AS image,
        sum(count)::BIGINT AS pulls,
        max(ts) AS last
    FROM kubernetes_events
    WHERE reason = 'Pulled' AND message LIKE 'Successfully pulled image "%'
    GROUP BY node, image
    HAVING pulls >= $min_pulls::BIGINT
)

SELECT
    image,
    sum(pulls)::BIGINT AS pulls,
    count(*) AS nodes,
    max_by(node, (pulls, node)) AS worst_node,
    max(pulls) AS most_pulls_on_a_node,
    max(last) AS last
FROM pulls
GROUP BY image
ORDER BY pulls DESC, image
LIMIT $top::BIGINT;
