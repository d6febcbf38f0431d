-- Images as the kubelet's detect passes saw them: one row an image and pass.
-- kinds: images.ImagesDetected
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when the pass ran, UTC, cut to microseconds
-- column image_id VARCHAR: ID of the image
-- column size_bytes BIGINT: its size; NULL when the source does not hold it
-- column pinned BOOLEAN: the runtime pins it; NULL for versions that do not know pinned images
-- column in_use BOOLEAN: a container used it in this pass
-- column new BOOLEAN: this pass saw it for the first time
-- column last_used_ts TIMESTAMP: time written as last used in this pass, UTC; NULL when not in use
CREATE VIEW images_detected AS
SELECT
    node,
    seq,
    ts,
    image ->> 'image_id' AS image_id,
    (image ->> 'size_bytes')::BIGINT AS size_bytes,
    (image ->> 'pinned')::BOOLEAN AS pinned,
    coalesce((image ->> 'in_use')::BOOLEAN, false) AS in_use,
    coalesce((image ->> 'new')::BOOLEAN, false) AS new,
    make_timestamp((image ->> 'last_used_ts_ns')::BIGINT // 1000) AS last_used_ts
FROM (
    SELECT node, seq, ts, unnest((body -> 'images')::JSON[]) AS image
    FROM records
    WHERE kind = 'images.ImagesDetected'
);
