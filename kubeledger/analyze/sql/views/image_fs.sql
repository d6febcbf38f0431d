-- Size of the image filesystem, one row a change.
-- kinds: images.ImageFsObserved
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column capacity_bytes BIGINT: size of the filesystem; NULL when not known
-- column available_bytes BIGINT: bytes free; NULL when not known
-- column used_bytes BIGINT: bytes used by images; NULL when not known
-- column source VARCHAR: where it was read: `stats-summary` or `log`
CREATE VIEW image_fs AS
SELECT
    node,
    seq,
    ts,
    (body ->> 'capacity_bytes')::BIGINT AS capacity_bytes,
    (body ->> 'available_bytes')::BIGINT AS available_bytes,
    (body ->> 'used_bytes')::BIGINT AS used_bytes,
    body ->> 'source' AS source
FROM records
WHERE kind = 'images.ImageFsObserved';
