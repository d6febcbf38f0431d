-- How full the node's filesystems were, over time: one row a filesystem and reading.
-- kinds: images.EvictionSignalObserved images.ImageFsObserved
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column filesystem VARCHAR: `nodefs`, `imagefs` or `containerfs`, as the kubelet calls them; they may be one disk
-- column capacity_bytes BIGINT: its size
-- column available_bytes BIGINT: what is free
-- column used_percent DOUBLE: share that is not free, with one decimal
-- column source VARCHAR: `eviction` (what the eviction manager read), `stats-summary` or `log`
CREATE VIEW disk_usage AS
SELECT
    node,
    seq,
    ts,
    filesystem,
    capacity_bytes,
    available_bytes,
    round(100 * (1 - available_bytes / nullif(capacity_bytes, 0)), 1) AS used_percent,
    source
FROM (
    SELECT
        node,
        seq,
        ts,
        split_part(body ->> 'signal', '.', 1) AS filesystem,
        (body ->> 'capacity')::BIGINT AS capacity_bytes,
        (body ->> 'available')::BIGINT AS available_bytes,
        'eviction' AS source
    FROM records
    WHERE
        kind = 'images.EvictionSignalObserved'
        AND body ->> 'signal' IN ('nodefs.available', 'imagefs.available', 'containerfs.available')
    UNION ALL
    SELECT
        node,
        seq,
        ts,
        'imagefs',
        (body ->> 'capacity_bytes')::BIGINT,
        (body ->> 'available_bytes')::BIGINT,
        body ->> 'source'
    FROM records
    WHERE kind = 'images.ImageFsObserved'
);
