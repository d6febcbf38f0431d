-- Conditions of the node, one row a change. A query that names this view replays the ledger first.
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record that tells it first
-- column ts TIMESTAMP: since when, UTC, cut to microseconds
-- column condition VARCHAR: `Ready`, `MemoryPressure`, `DiskPressure` or `PIDPressure`
-- column status VARCHAR: `True`, `False` or `Unknown`
-- column reason VARCHAR: the condition's reason, e.g. `KubeletNotReady`; NULL when no source says
-- column message VARCHAR: the condition's message; NULL when no source says
-- column until_ts TIMESTAMP: when it changed; NULL: not as far as is known
CREATE VIEW node_conditions AS
SELECT
    node,
    seq,
    make_timestamp(ts_ns // 1000) AS ts,
    condition,
    status,
    reason,
    message,
    make_timestamp(until_ts_ns // 1000) AS until_ts
FROM stored.conditions;
