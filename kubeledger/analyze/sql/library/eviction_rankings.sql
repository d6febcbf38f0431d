-- title: Who was to be evicted next, and who was spared?
-- One row an eviction: since when its threshold was met, the pod's place in the ranking, whose turn was next, and critical pods that were left alone.
SELECT
    node,
    seq,
    namespace || '/' || pod AS pod,
    kind,
    since,
    rank[1] AS rank,
    ranked[rank[1] + 1] AS next_in_rank,
    spared
FROM evictions
ORDER BY node, seq;
