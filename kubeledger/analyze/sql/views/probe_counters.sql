-- The kubelet's own counts of probe ticks (`prober_probe_total`), one row a change.
-- kinds: prober.ProbeCountersRead
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: name of the pod
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it (a static pod's hash); NULL when no source says
-- column container VARCHAR: name of the container
-- column probe_type VARCHAR: `liveness`, `readiness` or `startup`
-- column successful BIGINT: successful ticks since the kubelet started
-- column failed BIGINT: failed ticks since the kubelet started
-- column unknown BIGINT: ticks without a result since the kubelet started
CREATE VIEW probe_counters AS
SELECT
    node,
    seq,
    ts,
    body ->> 'namespace' AS namespace,
    body ->> 'pod' AS pod,
    body ->> 'pod_uid' AS pod_uid,
    body ->> 'container' AS container,
    body ->> 'probe_type' AS probe_type,
    (body ->> 'successful')::BIGINT AS successful,
    (body ->> 'failed')::BIGINT AS failed,
    coalesce((body ->> 'unknown')::BIGINT, 0) AS unknown
FROM records
WHERE kind = 'prober.ProbeCountersRead';
