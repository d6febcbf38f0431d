-- Where the lines of each imported source went; understood, noise and not understood add up to lines.
-- kinds: ledger.ImportCompleted
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: time of the source's last fact, not of the import, UTC, cut to microseconds
-- column source_file VARCHAR: path of the source, relative to the bundle
-- column lines BIGINT: lines in all
-- column understood BIGINT: lines that a fact or a known message came from
-- column noise BIGINT: lines known to hold no decision
-- column not_understood BIGINT: lines that no importer knows (see `not_understood`)
-- column repeated BIGINT: lines of the noise that say again what another line of the bundle said
-- column records BIGINT: records made from the source
CREATE VIEW line_accounts AS
SELECT
    node,
    seq,
    ts,
    account ->> 'file' AS source_file,
    (account ->> 'lines')::BIGINT AS lines,
    (account ->> 'understood')::BIGINT AS understood,
    (account ->> 'noise')::BIGINT AS noise,
    (account ->> 'not_understood')::BIGINT AS not_understood,
    coalesce((account ->> 'repeated')::BIGINT, 0) AS repeated,
    coalesce(list_sum(
        [(account -> 'records' ->> kind)::BIGINT FOR kind IN json_keys(account -> 'records')]
    ), 0)::BIGINT AS records
FROM (
    SELECT node, seq, ts, unnest((body -> 'accounts')::JSON[]) AS account
    FROM records
    WHERE kind = 'ledger.ImportCompleted'
);
