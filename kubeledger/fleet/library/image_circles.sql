-- title: Which images does image GC delete that come back?
-- One row an image over all nodes. It came back if a later detect pass of the node saw it as a new one; `image_pulls` counts pulls by name.
-- param min_circles BIGINT default 1: of an image to be listed
-- param top BIGINT default 20: rows
WITH deletions AS (
    SELECT
        node,
        image_id,
        size_bytes,
        ts,
        lead(ts) OVER (PARTITION BY node, image_id ORDER BY ts, seq) AS next_ts
    FROM image_gc_deletions
),

found AS (
    SELECT i.node, i.image_id, i.ts
    FROM images_detected AS i
    WHERE i.new AND (i.node, i.image_id) IN (SELECT (node, image_id) FROM deletions)
),

circles AS (
    SELECT d.node, d.image_id, any_value(d.size_bytes) AS size_bytes, d.ts, min(f.ts) AS back_ts
    FROM deletions AS d
    LEFT JOIN found AS f
        ON f.node = d.node
        AND f.image_id = d.image_id
        AND f.ts > d.ts
        AND (d.next_ts IS NULL OR f.ts < d.next_ts)
    GROUP BY d.node, d.image_id, d.ts
)

SELECT
    image_id,
    max(size_bytes) AS size_bytes,
    count(*) AS deletions,
    count(back_ts) AS circles,
    count(DISTINCT node) FILTER (back_ts IS NOT NULL) AS nodes,
    round(median(epoch(back_ts - ts)) / 60, 1) AS median_minutes_away,
    (sum(size_bytes) FILTER (back_ts IS NOT NULL))::BIGINT AS bytes_in_circles,
    min(node) FILTER (back_ts IS NOT NULL) AS example
FROM circles
GROUP BY image_id
HAVING circles >= $min_circles::BIGINT
ORDER BY circles DESC, image_id
LIMIT $top::BIGINT;
