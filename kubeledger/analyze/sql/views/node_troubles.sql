-- What of the node did not work for a while, as its kubelet said. A query that names this view replays the ledger first.
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record that tells it first
-- column ts TIMESTAMP: when the kubelet first said so, UTC, cut to microseconds
-- column trouble VARCHAR: what did not work, e.g. `runtime_down`, `network_not_ready`, `pleg_unhealthy`, `api_unreachable`
-- column message VARCHAR: the kubelet's words
-- column attempts BIGINT: how often it said so
-- column last_ts TIMESTAMP: when it said so last
-- column passed_ts TIMESTAMP: when a line shows that it works again; NULL when none does
CREATE VIEW node_troubles AS
SELECT
    node,
    seq,
    make_timestamp(ts_ns // 1000) AS ts,
    trouble,
    message,
    attempts,
    make_timestamp(last_ts_ns // 1000) AS last_ts,
    make_timestamp(passed_ts_ns // 1000) AS passed_ts
FROM stored.troubles;
