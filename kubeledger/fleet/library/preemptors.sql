-- title: Who preempts whom?
-- One row a preemptor and what it lacked first, over all nodes; critical pods of a node's own name (static ones) are rows of their own.
-- param top BIGINT default 20: rows
SELECT
    n.pool,
    p.preemptor_namespace || '/' || p.preemptor_pod AS preemptor,
    count(*) AS victims,
    count(*) FILTER (p.evicted IS FALSE) AS failed,
    count(DISTINCT p.node) AS nodes,
    list_sort(list(DISTINCT p.victim_namespace || '/' || p.victim_pod))[:5] AS first_victims,
    min_by(p.insufficient, (p.ts, p.seq)) AS insufficient,
    min(p.ts) AS first,
    max(p.ts) AS last
FROM preemptions AS p
JOIN nodes AS n ON n.node = p.node
GROUP BY n.pool, preemptor
ORDER BY victims DESC, n.pool, preemptor
LIMIT $top::BIGINT;
