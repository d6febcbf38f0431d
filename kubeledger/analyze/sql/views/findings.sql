-- What a reader of the ledger must know about its sources: truncated files, wrong checksums, guesses.
-- kinds: ledger.FindingReported
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: time of the source's facts, not of the import, UTC, cut to microseconds
-- column finding VARCHAR: `checksum_mismatch`, `truncated`, `not_text`, `clock_stepped_back` and their kin
-- column source_file VARCHAR: the file it is about; NULL when it is about the whole bundle
-- column message VARCHAR: one sentence
CREATE VIEW findings AS
SELECT
    node,
    seq,
    ts,
    body ->> 'finding' AS finding,
    body ->> 'file' AS source_file,
    body ->> 'message' AS message
FROM records
WHERE kind = 'ledger.FindingReported';
