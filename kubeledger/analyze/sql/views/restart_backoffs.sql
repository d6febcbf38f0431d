-- Restarts that the kubelet put off because the container's back-off had not passed.
-- kinds: lifecycle.RestartBackedOff
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: name of the pod
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it (a static pod's hash); NULL when no source says
-- column container VARCHAR: name of the container
-- column back_off_s BIGINT: the current back-off in seconds
CREATE VIEW restart_backoffs AS
SELECT
    node,
    seq,
    ts,
    body ->> 'namespace' AS namespace,
    body ->> 'pod' AS pod,
    body ->> 'pod_uid' AS pod_uid,
    body ->> 'container' AS container,
    (body ->> 'back_off_s')::BIGINT AS back_off_s
FROM records
WHERE kind = 'lifecycle.RestartBackedOff';
