-- Containers that the kubelet killed.
-- kinds: lifecycle.ContainerKilled
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: name of the pod
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it (a static pod's hash); NULL when no source says
-- column container VARCHAR: name of the container; NULL when no source says
-- column container_id VARCHAR: ID of the container; NULL when not known
-- column reason VARCHAR: `liveness_probe`, `startup_probe`, `preempted`, `pod_deleted`, `spec_changed`, `evicted`, `post_start_hook`, `pod_ended`, `deadline_exceeded`, `orphaned`, `node_shutdown`, `sandbox_changed` or `resized`; NULL when no source says
-- column message VARCHAR: the kubelet's own message
-- column grace_period_s BIGINT: seconds given to the container; NULL when not known
-- column cause_seq BIGINT: seq of the record that led to this one, e.g. the probe transition
CREATE VIEW container_kills AS
SELECT
    node,
    seq,
    ts,
    body ->> 'namespace' AS namespace,
    body ->> 'pod' AS pod,
    body ->> 'pod_uid' AS pod_uid,
    body ->> 'container' AS container,
    body ->> 'container_id' AS container_id,
    body ->> 'reason' AS reason,
    body ->> 'message' AS message,
    (body ->> 'grace_period_s')::BIGINT AS grace_period_s,
    cause_seq
FROM records
WHERE kind = 'lifecycle.ContainerKilled';
