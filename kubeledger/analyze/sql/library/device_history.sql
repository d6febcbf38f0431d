-- title: Who held a device, from when to when?
-- One row a holder, for all devices or for one.
-- param device VARCHAR default NULL: ID of a device; all of them without it
SELECT
    node,
    resource,
    device_id,
    namespace || '/' || pod AS pod,
    pod_uid,
    container,
    ts AS since,
    released_ts AS until,
    seq
FROM (SELECT *, unnest(device_ids) AS device_id FROM device_allocations)
WHERE $device IS NULL OR device_id = $device
ORDER BY node, resource, device_id, ts, seq;
