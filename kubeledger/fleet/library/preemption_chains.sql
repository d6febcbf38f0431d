-- title: Which preemptors were preempted in their turn?
-- One row a chain of at least two preemptions on a node, the longest first; each pod was preempted for the one before it.
-- param top BIGINT default 20: rows
WITH RECURSIVE links AS (
    SELECT
        node,
        seq,
        ts,
        victim_namespace || '/' || victim_pod AS victim,
        coalesce(victim_uid, victim_namespace || '/' || victim_pod) AS victim_id,
        preemptor_namespace || '/' || preemptor_pod AS preemptor,
        coalesce(preemptor_uid, preemptor_namespace || '/' || preemptor_pod) AS preemptor_id
    FROM preemptions
    WHERE preemptor_pod IS NOT NULL AND evicted IS DISTINCT FROM false
),

chains AS (
    SELECT
        node,
        [preemptor, victim] AS pods,
        preemptor_id,
        ts AS first,
        ts AS last,
        seq AS first_seq,
        seq
    FROM links
    UNION ALL
    SELECT
        c.node,
        list_prepend(l.preemptor, c.pods),
        l.preemptor_id,
        c.first,
        l.ts,
        c.first_seq,
        l.seq
    FROM chains AS c
    JOIN links AS l ON l.node = c.node AND l.victim_id = c.preemptor_id AND l.seq > c.seq
)

SELECT
    n.pool,
    c.node,
    len(c.pods) - 1 AS preemptions,
    array_to_string(c.pods, ' > ') AS chain,
    c.first,
    c.last,
    c.first_seq,
    c.seq AS last_seq
FROM chains AS c
JOIN nodes AS n ON n.node = c.node
WHERE
    len(c.pods) > 2
    -- Only whole chains: none that another one goes on from, or begins before.
    AND NOT EXISTS (
        SELECT 1 FROM links AS l
        WHERE l.node = c.node AND l.victim_id = c.preemptor_id AND l.seq > c.seq
    )
    AND NOT EXISTS (
        SELECT 1 FROM links AS l JOIN links AS f ON f.node = l.node AND f.seq = c.first_seq
        WHERE l.node = c.node AND l.preemptor_id = f.victim_id AND l.seq < f.seq
    )
ORDER BY preemptions DESC, n.pool, c.node, c.seq, chain
LIMIT $top::BIGINT;
