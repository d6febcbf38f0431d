-- Kubernetes events that the kubelet reported, one row an event.
-- kinds: lifecycle.ReasonReported
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column object_kind VARCHAR: `Pod` or `Node`
-- column namespace VARCHAR: namespace of the object; NULL for a node
-- column name VARCHAR: name of the object
-- column uid VARCHAR: UID of the object
-- column container VARCHAR: container named by the event's field path
-- column type VARCHAR: `Normal` or `Warning`
-- column reason VARCHAR: the event's reason, e.g. `Unhealthy`
-- column message VARCHAR: the event's message
-- column count BIGINT: how many events the source says this one stands for
-- column api_count BIGINT: count that the API server had reached; NULL when it never got there or no event list is at hand
CREATE VIEW kubernetes_events AS
SELECT
    node,
    seq,
    ts,
    body ->> 'object_kind' AS object_kind,
    nullif(body ->> 'namespace', '') AS namespace,
    body ->> 'pod' AS name,
    body ->> 'pod_uid' AS uid,
    body ->> 'container' AS container,
    body ->> 'type' AS type,
    body ->> 'reason' AS reason,
    body ->> 'message' AS message,
    coalesce((body ->> 'count')::BIGINT, 1) AS count,
    (body ->> 'api_count')::BIGINT AS api_count
FROM records
WHERE kind = 'lifecycle.ReasonReported';
