-- title: Which pods do not get on, since when, and why?
-- One row a pod or container and stage: first what is still in it, stuck the longest first; then what
-- never got past it on its way to its start and is gone, since when stands in `ended_ts`.
SELECT
    node,
    ts,
    concat_ws('/', namespace, coalesce(pod, pod_uid), container) AS pod,
    stage,
    reason,
    attempts,
    last_ts,
    ended_ts,
    message,
    seq
FROM pod_stages
WHERE passed_ts IS NULL
    AND (ended_ts IS NULL OR stage NOT IN ('admission', 'run', 'ready', 'stop', 'teardown'))
ORDER BY node, ended_ts IS NOT NULL, ts, seq;
