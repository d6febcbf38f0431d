-- Where facts stand in their sources: one row a piece of evidence.
-- kinds: all
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column source_file VARCHAR: path of the source, relative to the bundle it was imported from
-- column source_line BIGINT: 1-based line; NULL when the fact is the whole file
-- column byte_offset BIGINT: offset of that line in the decompressed source; NULL as above
-- column text VARCHAR: the line itself, cut at 4096 characters; NULL when the source is a whole file
-- column kind VARCHAR: kind of the record
CREATE VIEW evidence AS
SELECT
    node,
    seq,
    ts,
    piece.file AS source_file,
    piece.line AS source_line,
    piece."offset" AS byte_offset,
    piece.text AS text,
    kind
FROM (SELECT node, seq, ts, kind, unnest(evidence) AS piece FROM records);
