-- Kubelet processes that began.
-- kinds: node.KubeletStarted
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column pid BIGINT: process ID in the log; NULL when the form of the log has none
-- column kubelet_version VARCHAR: version, e.g. `1.36.2`; NULL when nothing tells
-- column version_source VARCHAR: what tells the version
-- column restart BOOLEAN: another kubelet process ran before it in the same log
CREATE VIEW kubelet_starts AS
SELECT
    node,
    seq,
    ts,
    (body ->> 'pid')::BIGINT AS pid,
    body ->> 'kubelet_version' AS kubelet_version,
    body ->> 'version_source' AS version_source,
    coalesce((body ->> 'restart')::BOOLEAN, false) AS restart
FROM records
WHERE kind = 'node.KubeletStarted';
