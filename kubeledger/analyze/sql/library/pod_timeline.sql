-- title: What happened to a pod?
-- All records about it in the order of time, those that hold only its UID included.
-- param pod VARCHAR: the pod as NAMESPACE/NAME, NAME or UID
WITH uids AS (
    SELECT DISTINCT node, pod_uid
    FROM events
    WHERE $pod IN (pod, namespace || '/' || pod, pod_uid) AND pod_uid IS NOT NULL
)

SELECT
    node,
    ts,
    kind,
    container,
    seq,
    source_file || coalesce(':' || source_line, '') AS source,
    body
FROM events
WHERE
    $pod IN (pod, namespace || '/' || pod, body ->> 'preemptor_pod')
    OR (node, pod_uid) IN (FROM uids)
ORDER BY node, ts_ns, seq;
