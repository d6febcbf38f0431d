-- title: Which containers did not get their devices, and why?
-- One row a refusal of the device manager.
SELECT
    node,
    ts,
    namespace || '/' || pod AS pod,
    container,
    resource,
    requested,
    available,
    error,
    seq
FROM device_refusals
ORDER BY node, seq;
