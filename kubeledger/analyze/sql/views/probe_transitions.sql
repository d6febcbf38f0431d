-- Cached probe results that changed because a threshold was reached.
-- kinds: prober.ProbeTransitioned
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: name of the pod
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it (a static pod's hash); NULL when no source says
-- column container VARCHAR: name of the container
-- column container_id VARCHAR: ID of the container probed; NULL when the source does not say
-- column probe_type VARCHAR: `liveness`, `readiness` or `startup`
-- column from_result VARCHAR: result before: `success`, `failure` or `unknown`
-- column to_result VARCHAR: result from then on
-- column run BIGINT: consecutive ticks with the new result; NULL when not known
-- column threshold BIGINT: threshold of the probe's spec; NULL when no pod spec is at hand
-- column inferred BOOLEAN: true when no line names the change and it was computed from ticks and threshold
-- column cause_seq BIGINT: seq of the record that led to this one
CREATE VIEW probe_transitions AS
SELECT
    node,
    seq,
    ts,
    body ->> 'namespace' AS namespace,
    body ->> 'pod' AS pod,
    body ->> 'pod_uid' AS pod_uid,
    body ->> 'container' AS container,
    body ->> 'container_id' AS container_id,
    body ->> 'probe_type' AS probe_type,
    body ->> 'from_result' AS from_result,
    body ->> 'to_result' AS to_result,
    (body ->> 'run')::BIGINT AS run,
    (body ->> 'threshold')::BIGINT AS threshold,
    coalesce((body ->> 'inferred')::BOOLEAN, false) AS inferred,
    cause_seq
FROM records
WHERE kind = 'prober.ProbeTransitioned';
