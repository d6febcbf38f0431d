-- title: Which pods were evicted, and why?
-- One row an attempt: what was short, the threshold, what was left, and whether the manager saw the pod end. `eviction_rankings` shows who stood where.
SELECT
    node,
    ts,
    namespace || '/' || pod AS pod,
    resource,
    signal,
    kind AS threshold_kind,
    threshold,
    observed,
    rank[1] AS rank,
    grace_period_s,
    evicted,
    seq
FROM evictions
ORDER BY node, seq;
