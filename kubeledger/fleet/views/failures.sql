-- Sources that are not in the lake, and why.
-- column source VARCHAR: its URL, or `node KEY` where a node was to be verified again
-- column ts TIMESTAMP: when the run began in which it failed, UTC, cut to microseconds
-- column kind VARCHAR: `input` (it cannot be used), `storage`, `resources` (of the worker), `lost` (the worker died), `timeout` or `bug`
-- column reason VARCHAR: one sentence
-- column advice VARCHAR: what to do about it; NULL where nothing is known
-- column attempts INTEGER: how often it was tried in that run
CREATE VIEW failures AS
SELECT
    source,
    make_timestamp(ts_ns // 1000) AS ts,
    kind,
    reason,
    nullif(advice, '') AS advice,
    attempts::INTEGER AS attempts
FROM stored.failures;
