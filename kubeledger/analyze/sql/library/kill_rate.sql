-- title: How many containers and pods were killed or evicted, hour by hour?
-- The counts overlap: containers of an evicted pod are killed, too.
SELECT
    node,
    ts AS hour,
    oom_kills,
    evictions,
    preemptions,
    probe_kills,
    container_kills
FROM kills_per_hour
ORDER BY node, ts;
