-- Pressure conditions that the node reports, by the eviction manager: one row a change.
-- kinds: eviction.NodeConditionsChanged
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column conditions VARCHAR[]: `MemoryPressure`, `DiskPressure`, `PIDPressure`: those that are reported from now on
-- column observed VARCHAR[]: those of them whose threshold is met now; the others stay until the transition period is over
CREATE VIEW pressure_conditions AS
SELECT
    node,
    seq,
    ts,
    (body -> 'conditions')::VARCHAR[] AS conditions,
    (body -> 'observed')::VARCHAR[] AS observed
FROM records
WHERE kind = 'eviction.NodeConditionsChanged';
