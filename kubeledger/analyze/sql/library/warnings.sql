-- title: Which Kubernetes events were warnings?
-- Kubernetes events of type Warning by reason and object, the most frequent first.
SELECT
    node,
    reason,
    object_kind,
    CASE object_kind WHEN 'Pod' THEN namespace || '/' || name ELSE name END AS object,
    sum(count)::BIGINT AS times,
    min(ts) AS first,
    max(ts) AS last,
    arg_max(message, seq) AS last_message
FROM kubernetes_events
WHERE type = 'Warning'
GROUP BY node, reason, object_kind, object
ORDER BY times DESC, node, reason, object;
