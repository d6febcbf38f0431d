-- Containers and sandboxes that began or ceased to run, as the kubelet learnt it.
-- kinds: lifecycle.ContainerStarted lifecycle.ContainerDied
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: name of the pod
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it (a static pod's hash); NULL when no source says
-- column container VARCHAR: name of the container; NULL when no source names the ID
-- column container_id VARCHAR: ID of the container, without the runtime's prefix
-- column sandbox BOOLEAN: true when it is the pod's sandbox; NULL when that is not known
-- column state VARCHAR: `started` or `died`
-- column exit_code BIGINT: exit code of a container that died; NULL when not known
-- column cause_seq BIGINT: seq of the record that led to this one, e.g. the kill
CREATE VIEW container_states AS
SELECT
    node,
    seq,
    ts,
    body ->> 'namespace' AS namespace,
    body ->> 'pod' AS pod,
    body ->> 'pod_uid' AS pod_uid,
    body ->> 'container' AS container,
    body ->> 'container_id' AS container_id,
    (body ->> 'sandbox')::BOOLEAN AS sandbox,
    CASE kind WHEN 'lifecycle.ContainerStarted' THEN 'started' ELSE 'died' END AS state,
    (body ->> 'exit_code')::BIGINT AS exit_code,
    cause_seq
FROM records
WHERE kind IN ('lifecycle.ContainerStarted', 'lifecycle.ContainerDied');
