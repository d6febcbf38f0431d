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
    body ->> 'signal' AS signal,
    (body ->> 'available')::BIGINT AS available,
    (body ->> 'capacity')::BIGINT AS capacity
FROM records
WHERE kind = 'images.EvictionSignalObserved';
