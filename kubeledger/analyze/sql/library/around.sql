-- title: What happened around a moment?
-- All records from before to after a time.
-- param at TIME: the moment
-- param seconds DOUBLE default 30: how far to look to both sides
SELECT
    node,
    ts,
    kind,
    namespace || '/' || pod AS pod,
    container,
    seq,
    body
FROM events
WHERE
    ts >= $at::TIMESTAMP - to_seconds($seconds::DOUBLE)
    AND ts <= $at::TIMESTAMP + to_seconds($seconds::DOUBLE)
ORDER BY node, ts_ns, seq;
