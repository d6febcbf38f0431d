-- Probes that ran, one row a record: simulations write ticks that change nothing as one.
-- kinds: prober.ProbeExecuted prober.ProbeTicksFolded
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when it was recorded, UTC, cut to microseconds
-- column first_ts TIMESTAMP: first tick of the row, UTC, cut to microseconds
-- column last_ts TIMESTAMP: last tick of the row, UTC, cut to microseconds
-- column count BIGINT: how many ticks the row stands for, 1 for a single one
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: name of the pod
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it (a static pod's hash); NULL when no source says
-- column container VARCHAR: name of the container
-- column probe_type VARCHAR: `liveness`, `readiness` or `startup`
-- column result VARCHAR: what each probe returned before thresholds: `success`, `failure`, `warning`, `unknown` or `error`
-- column output VARCHAR: what each probe said; NULL when the source holds nothing
-- column handler VARCHAR: `exec`, `http`, `tcp` or `grpc`; NULL when not known
-- column container_id VARCHAR: ID of the container probed; NULL when the source does not say
CREATE VIEW probe_tick_runs AS
SELECT
    node,
    seq,
    ts,
    coalesce(make_timestamp(fields[1]::BIGINT // 1000), ts) AS first_ts,
    coalesce(make_timestamp(fields[2]::BIGINT // 1000), ts) AS last_ts,
    coalesce(fields[3]::BIGINT, 1) AS count,
    namespace,
    pod,
    pod_uid,
    container,
    fields[4] AS probe_type,
    fields[5] AS result,
    body ->> 'output' AS output,
    body ->> 'handler' AS handler,
    body ->> 'container_id' AS container_id
FROM (
    -- One call for what most questions need parses each body once.
    SELECT
        *,
        json_extract_string(
            body, ['$.first_ts_ns', '$.last_ts_ns', '$.count', '$.probe_type', '$.result']
        ) AS fields
    FROM stored.rows
    WHERE kind IN ('prober.ProbeExecuted', 'prober.ProbeTicksFolded')
);
