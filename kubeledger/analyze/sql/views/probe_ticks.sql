-- Probes that ran, one row a tick; ticks that a simulation folded are in `probe_tick_runs`.
-- kinds: prober.ProbeExecuted
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: name of the pod
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it (a static pod's hash); NULL when no source says
-- column container VARCHAR: name of the container
-- column probe_type VARCHAR: `liveness`, `readiness` or `startup`
-- column result VARCHAR: what the probe returned before thresholds: `success`, `failure`, `warning`, `unknown` or `error`
-- column output VARCHAR: what the probe said; NULL when the source holds nothing
-- column handler VARCHAR: `exec`, `http`, `tcp` or `grpc`; NULL when not known
-- column container_id VARCHAR: ID of the container probed; NULL when the source does not say
CREATE VIEW probe_ticks AS
SELECT
    node,
    seq,
    ts,
    body ->> 'namespace' AS namespace,
    body ->> 'pod' AS pod,
    body ->> 'pod_uid' AS pod_uid,
    body ->> 'container' AS container,
    body ->> 'probe_type' AS probe_type,
    body ->> 'result' AS result,
    body ->> 'output' AS output,
    body ->> 'handler' AS handler,
    body ->> 'container_id' AS container_id
FROM records
WHERE kind = 'prober.ProbeExecuted';
