-- Effective settings of the kubelet, one row a setting each time they were observed.
-- kinds: node.SettingsObserved
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column setting VARCHAR: field of KubeletConfiguration, or `--flag` for a flag without such a field
-- column value VARCHAR: value as JSON text, e.g. `85`, `"10s"`
-- column source VARCHAR: `config`, `flag`, `default` or `log`
CREATE VIEW settings AS
SELECT
    node,
    seq,
    ts,
    entry.key AS setting,
    entry.value ->> 'value' AS value,
    entry.value ->> 'source' AS source
FROM (
    SELECT
        node,
        seq,
        ts,
        -- As a map the object is parsed once, and not once for each of its keys.
        unnest(map_entries((body -> 'settings')::MAP(VARCHAR, JSON))) AS entry
    FROM records
    WHERE kind = 'node.SettingsObserved'
);
