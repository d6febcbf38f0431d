-- Containers that the device manager refused.
-- kinds: devicemanager.AllocationFailed
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: name of the pod
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it (a static pod's hash); NULL when no source says
-- column container VARCHAR: name of the container; NULL when the message does not name it
-- column resource VARCHAR: extended resource; NULL when the message does not name it
-- column requested BIGINT: devices asked for; NULL when the message holds no count
-- column available BIGINT: devices that were free; NULL when the message holds no count
-- column error VARCHAR: the device manager's error text
CREATE VIEW device_refusals AS
SELECT
    node,
    seq,
    ts,
    body ->> 'namespace' AS namespace,
    body ->> 'pod' AS pod,
    body ->> 'pod_uid' AS pod_uid,
    body ->> 'container' AS container,
    body ->> 'resource' AS resource,
    (body ->> 'requested')::BIGINT AS requested,
    (body ->> 'available')::BIGINT AS available,
    body ->> 'error' AS error
FROM records
WHERE kind = 'devicemanager.AllocationFailed';
