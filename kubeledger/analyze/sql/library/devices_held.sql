-- title: Who holds which device at the end of the record?
-- One row a device that was allocated and not given back; the pod may have ended before that.
SELECT
    node,
    resource,
    unnest(device_ids) AS device_id,
    namespace || '/' || pod AS pod,
    pod_uid,
    container,
    ts AS since,
    pod_terminated_ts AS pod_ended,
    seq
FROM device_allocations
WHERE released_ts IS NULL
ORDER BY node, resource, device_id, seq;
