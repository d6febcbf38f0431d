-- Device lists that plugins sent, and plugins that came and went.
-- kinds: devicemanager.DevicesReported devicemanager.PluginRegistered devicemanager.EndpointStopped
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column resource VARCHAR: extended resource of the plugin
-- column event VARCHAR: `registered`, `reported` or `stopped`
-- column total BIGINT: devices in the list; NULL when not known
-- column healthy BIGINT: healthy ones; NULL when not known
-- column device_ids VARCHAR[]: all IDs; NULL when not known
-- column error VARCHAR: why the endpoint stopped; NULL without one
CREATE VIEW device_reports AS
SELECT
    node,
    seq,
    ts,
    body ->> 'resource' AS resource,
    CASE kind
        WHEN 'devicemanager.PluginRegistered' THEN 'registered'
        WHEN 'devicemanager.DevicesReported' THEN 'reported'
        ELSE 'stopped'
    END AS event,
    (body ->> 'total')::BIGINT AS total,
    (body ->> 'healthy')::BIGINT AS healthy,
    (body -> 'device_ids')::VARCHAR[] AS device_ids,
    body ->> 'error' AS error
FROM records
WHERE kind IN (
    'devicemanager.DevicesReported',
    'devicemanager.PluginRegistered',
    'devicemanager.EndpointStopped'
);
