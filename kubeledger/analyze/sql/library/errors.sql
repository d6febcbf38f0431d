-- title: Which errors did the kubelet log that no other record tells?
-- Lines of severity F, E and W by shape, the most frequent first; last those that other records tell, too.
SELECT
    node,
    severity,
    source,
    shape,
    sum(count)::BIGINT AS lines,
    count(DISTINCT (namespace, pod)) FILTER (pod IS NOT NULL) AS pods,
    min(ts) AS first,
    max(last_ts) AS last,
    recorded,
    min(example_seq) AS example_seq,
    arg_min(example, example_seq) AS example
FROM logged_errors
GROUP BY node, severity, source, shape, recorded
ORDER BY recorded, node, lines DESC, severity, source, shape;
