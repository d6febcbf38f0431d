-- What was killed and evicted on a node, by hour. The counts overlap: the containers of an evicted or preempted pod are killed, too. An hour without any has no row.
-- kinds: oom.ProcessKilled lifecycle.PodEvicted preemption.PodPreempted lifecycle.ContainerKilled
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the first of these records on its node
-- column ts TIMESTAMP: beginning of the hour, UTC
-- column oom_kills BIGINT: rows of `oom_kills`: kills of the kernel
-- column evictions BIGINT: pods of the hour's rows of `evictions`, each once
-- column preemptions BIGINT: rows of `preemptions` without those that are known to have failed
-- column probe_kills BIGINT: rows of `container_kills` because a liveness or startup probe failed
-- column container_kills BIGINT: all rows of `container_kills`, for whatever reason
CREATE VIEW kills_per_hour AS
SELECT
    node,
    min(seq) AS seq,
    date_trunc('hour', ts) AS ts,
    count(*) FILTER (kind = 'oom.ProcessKilled') AS oom_kills,
    count(
        DISTINCT CASE kind
            WHEN 'lifecycle.PodEvicted'
                THEN coalesce(body ->> 'pod_uid', (body ->> 'namespace') || '/' || (body ->> 'pod'))
        END
    ) AS evictions,
    count(*) FILTER (kind = 'preemption.PodPreempted') AS preemptions,
    count(*) FILTER (reason IN ('liveness_probe', 'startup_probe')) AS probe_kills,
    count(*) FILTER (kind = 'lifecycle.ContainerKilled') AS container_kills
FROM (
    SELECT
        *,
        CASE kind WHEN 'lifecycle.ContainerKilled' THEN body ->> 'reason' END AS reason
    FROM records
    WHERE
        kind IN ('oom.ProcessKilled', 'lifecycle.ContainerKilled', 'lifecycle.PodEvicted')
        OR (
            kind = 'preemption.PodPreempted'
            AND (body ->> 'evicted')::BOOLEAN IS DISTINCT FROM false
        )
)
GROUP BY node, date_trunc('hour', ts);
