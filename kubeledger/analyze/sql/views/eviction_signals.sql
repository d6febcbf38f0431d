-- Eviction signals as the eviction manager read them.
-- kinds: images.EvictionSignalObserved
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column signal VARCHAR: name of the signal, e.g. `nodefs.available`
-- column available BIGINT: what is left: bytes, inodes or processes, by the signal
-- column capacity BIGINT: what there is in all, in the same unit
CREATE VIEW eviction_signals AS
SELECT
    node,
    seq,
    ts,
    fields[1] AS signal,
    fields[2]::BIGINT AS available,
    fields[3]::BIGINT AS capacity
FROM (
    SELECT
        *,
        json_extract_string(body, ['$.signal', '$.available', '$.capacity']) AS fields
    FROM records
    WHERE kind = 'images.EvictionSignalObserved'
);
