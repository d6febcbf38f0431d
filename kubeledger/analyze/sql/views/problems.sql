-- What went wrong, one row each time: what an import, the page and a fleet's report count.
-- Decisions that no kubelet could have taken are in `verdicts`. A query that names this view replays the ledger first.
-- column node VARCHAR: name of the node
-- column seq BIGINT: number of the record that shows it best
-- column ts TIMESTAMP: when it began, UTC, cut to microseconds
-- column kind VARCHAR: what went wrong, e.g. `evicted`, `crashed`, `stuck`
-- column severity INTEGER: 5 (the worst) to 1; 0: it is counted, and is no problem
CREATE VIEW problems AS
SELECT
    node,
    seq,
    make_timestamp(ts_ns // 1000) AS ts,
    kind,
    severity
FROM stored.went_wrong;
