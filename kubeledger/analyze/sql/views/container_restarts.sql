-- Containers that the kubelet started again in a pod where they had run before. Starts that failed are in `pod_stages`.
-- kinds: lifecycle.ContainerRestarted
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: name of the pod
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it (a static pod's hash); NULL when no source says
-- column container VARCHAR: name of the container
-- column reason VARCHAR: reason of the kill that led here (see `container_kills`), `exited` when the container ended by itself, NULL when not known
-- column cause_seq BIGINT: seq of the kill or the death that led to the restart
-- column container_id VARCHAR: the new ID; NULL when not known
-- column previous_container_id VARCHAR: the ID before it; NULL when not known
-- column restart_count BIGINT: restarts as the runtime or the pod's status counts them, with starts that failed; NULL when not known
CREATE VIEW container_restarts AS
SELECT
    node,
    seq,
    ts,
    body ->> 'namespace' AS namespace,
    body ->> 'pod' AS pod,
    body ->> 'pod_uid' AS pod_uid,
    body ->> 'container' AS container,
    body ->> 'reason' AS reason,
    cause_seq,
    body ->> 'container_id' AS container_id,
    body ->> 'previous_container_id' AS previous_container_id,
    (body ->> 'restart_count')::BIGINT AS restart_count
FROM records
WHERE kind = 'lifecycle.ContainerRestarted';
