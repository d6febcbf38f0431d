-- Containers that were started again, by pod and hour. An hour without a restart has no row; one that the records begin or end in is counted as far as they go.
-- kinds: lifecycle.ContainerRestarted
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the first of these records on its node
-- column ts TIMESTAMP: beginning of the hour, UTC
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: name of the pod
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it (a static pod's hash); NULL when no source says
-- column restarts BIGINT: rows of `container_restarts`
-- column containers VARCHAR[]: which containers, sorted
-- column reasons VARCHAR[]: why, sorted, without those that are not known
CREATE VIEW restarts_per_hour AS
SELECT
    node,
    min(seq) AS seq,
    date_trunc('hour', ts) AS ts,
    namespace,
    pod,
    pod_uid,
    count(*) AS restarts,
    list_sort(list(DISTINCT container)) AS containers,
    coalesce(list_sort(list(DISTINCT reason) FILTER (reason IS NOT NULL)), []) AS reasons
FROM container_restarts
GROUP BY node, date_trunc('hour', ts), namespace, pod, pod_uid;
