-- title: Which pods do not get on, since when, and why?
-- One row a pod or container and stage that it is still in, those stuck the longest first.
SELECT
    node,
    ts,
    concat_ws('/', namespace, coalesce(pod, pod_uid), container) AS pod,
    stage,
    reason,
    attempts,
    last_ts,
    message,
    seq
FROM pod_stages
WHERE passed_ts IS NULL AND ended_ts IS NULL
ORDER BY node, ts, seq;
