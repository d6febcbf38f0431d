-- Files of the lake that count: what the newest marker of each node names. Other engines that read them read what these views read.
-- column node VARCHAR: whose
-- column room VARCHAR: `records`, `verdicts`, `nodes` or `ledgers`
-- column date DATE: of the rows, UTC; NULL for `nodes` and `ledgers`
-- column url VARCHAR: where it is
-- column size_bytes BIGINT: of the file
-- column rows BIGINT: of a Parquet file; NULL for `ledgers`
-- column digest VARCHAR: BLAKE2b of its bytes, 32 hex digits
CREATE VIEW files AS
SELECT
    node,
    split_part(path, '/', 1) AS room,
    try_cast(regexp_extract(path, '/date=([^/]+)/', 1) AS DATE) AS date,
    url,
    size_bytes,
    rows,
    digest
FROM stored.files;
