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
    setting,
    settings -> setting ->> 'value' AS value,
    settings -> setting ->> 'source' AS source
FROM (
    SELECT
        node,
        seq,
        ts,
        body -> 'settings' AS settings,
        unnest(json_keys(body -> 'settings')) AS setting
    FROM records
    WHERE kind = 'node.SettingsObserved'
);
