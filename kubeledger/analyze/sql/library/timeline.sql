-- title: What kinds of things happened when?
-- Records by minute and kind.
SELECT
    node,
    date_trunc('minute', ts) AS minute,
    kind,
    count(*) AS records
FROM events
GROUP BY ALL
ORDER BY node, minute, kind;
