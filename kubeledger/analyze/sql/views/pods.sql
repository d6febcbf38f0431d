-- Pods as pod lists and manifests showed them, one row a change.
-- kinds: lifecycle.PodListed
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: name of the pod
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it (a static pod's hash); NULL when no source says
-- column listed_by VARCHAR: `kubelet` (its own list), `api` (an API server's list) or `manifest`
-- column gone BOOLEAN: the pod was in the previous list and is not in this one
-- column phase VARCHAR: phase in its status; NULL for a manifest
-- column qos_class VARCHAR: QoS class in its status
-- column priority BIGINT: priority in its spec
-- column static BOOLEAN: the kubelet has it from a file or URL and not from the API server; NULL when the annotation is missing
-- column created_ts TIMESTAMP: when it was created, UTC; NULL when not known
-- column labels JSON: its labels
-- column spec JSON: its spec as the API shows it
-- column status JSON: its status as the API shows it
CREATE VIEW pods AS
SELECT
    node,
    seq,
    ts,
    body ->> 'namespace' AS namespace,
    body ->> 'pod' AS pod,
    body ->> 'pod_uid' AS pod_uid,
    body ->> 'listed_by' AS listed_by,
    coalesce((body ->> 'gone')::BOOLEAN, false) AS gone,
    body -> 'status' ->> 'phase' AS phase,
    body -> 'status' ->> 'qosClass' AS qos_class,
    (body -> 'spec' ->> 'priority')::BIGINT AS priority,
    (body -> 'annotations' ->> 'kubernetes.io/config.source') <> 'api' AS static,
    make_timestamp((body ->> 'created_ts_ns')::BIGINT // 1000) AS created_ts,
    body -> 'labels' AS labels,
    nullif(body -> 'spec', 'null'::JSON) AS spec,
    nullif(body -> 'status', 'null'::JSON) AS status
FROM records
WHERE kind = 'lifecycle.PodListed';
