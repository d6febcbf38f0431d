-- title: Which pods were evicted, and why?
-- One row an eviction: the threshold, since when it was met, what was left, and who stood next in the ranking.
SELECT
    node,
    ts,
    namespace || '/' || pod AS pod,
    kind,
    signal,
    threshold,
    observed,
    since,
    rank,
    grace_period_s,
    evicted,
    ranked[rank[1] + 1] AS next_in_rank,
    spared,
    seq
FROM evictions
ORDER BY node, seq;
