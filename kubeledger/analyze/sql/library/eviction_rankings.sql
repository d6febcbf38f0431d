-- title: Who was to be evicted next, and who was spared?
-- One row an eviction, and one a ranking without any (`pod` is NULL): since when its threshold was met, the pod's place in the ranking, whose turn was next, all that were ranked, and critical pods that were left alone.
SELECT
    coalesce(e.node, r.node) AS node,
    coalesce(e.seq, r.seq) AS seq,
    e.namespace || '/' || e.pod AS pod,
    coalesce(e.kind, r.kind) AS kind,
    coalesce(e.since, r.since) AS since,
    e.rank[1] AS rank,
    CASE
        WHEN e.seq IS NOT NULL THEN e.ranked[e.rank[1] + 1]
        WHEN r.outcome IS NULL THEN
            [p FOR p IN r.ranked IF NOT list_contains(coalesce(r.spared, []), p)][1]
    END AS next_in_rank,
    coalesce(e.ranked, r.ranked) AS ranked,
    coalesce(e.spared, r.spared) AS spared
FROM evictions AS e
FULL JOIN reclaims AS r ON r.node = e.node AND r.seq = e.cause_seq
WHERE e.seq IS NOT NULL OR r.ranked IS NOT NULL OR r.spared IS NOT NULL
ORDER BY node, seq;
