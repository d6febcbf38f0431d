-- title: Which images and containers run out of memory?
-- One row an image and container over all nodes, the most kills first. The image is that of the pod's spec; NULL where no pod list holds the pod, and for processes outside of pods.
-- param top BIGINT default 20: rows
WITH kills AS MATERIALIZED (SELECT * FROM oom_kills),

images AS (
    SELECT
        node,
        pod_uid,
        c ->> 'name' AS container,
        arg_max(c ->> 'image', seq) AS image
    FROM (
        SELECT
            node,
            seq,
            pod_uid,
            unnest(
                coalesce((body -> 'spec' -> 'containers')::JSON[], [])
                || coalesce((body -> 'spec' -> 'initContainers')::JSON[], [])
            ) AS c
        FROM events  -- which has the pod beside the body: few bodies are parsed
        WHERE
            kind = 'lifecycle.PodListed'
            AND (node, pod_uid) IN (SELECT (node, pod_uid) FROM kills)
    )
    GROUP BY node, pod_uid, container
)

SELECT
    i.image,
    k.namespace,
    k.container,
    count(*) AS kills,
    count(DISTINCT k.node) AS nodes,
    count(DISTINCT (k.node, k.pod_uid)) AS pods,
    mode(k.reason ORDER BY k.reason) AS mostly,
    min(k.limit_bytes) AS least_limit_bytes,
    max(k.rss_bytes) AS most_rss_bytes,
    max(k.ts) AS last
FROM kills AS k
LEFT JOIN images AS i
    ON i.node = k.node AND i.pod_uid = k.pod_uid AND i.container = k.container
GROUP BY i.image, k.namespace, k.container
ORDER BY kills DESC, i.image, k.namespace, k.container
LIMIT $top::BIGINT;
