-- Lines that no importer knows, one row a source and shape of line.
-- kinds: ledger.LinesNotUnderstood
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: time of the source's facts, not of the import, UTC, cut to microseconds
-- column source_file VARCHAR: path of the source, relative to the bundle
-- column shape VARCHAR: the caller's file and the message up to its first variable part
-- column count BIGINT: how many lines
-- column lines BIGINT[]: their 1-based line numbers
-- column example VARCHAR: the first of them
CREATE VIEW not_understood AS
SELECT
    node,
    seq,
    ts,
    body ->> 'file' AS source_file,
    body ->> 'shape' AS shape,
    (body ->> 'count')::BIGINT AS count,
    (body -> 'lines')::BIGINT[] AS lines,
    evidence[1].text AS example
FROM records
WHERE kind = 'ledger.LinesNotUnderstood';
