-- How often the result of a probe changed, by probe and hour: flapping is many changes in both directions. An hour without a change has no row.
-- kinds: prober.ProbeTransitioned
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the first of these records on its node
-- column ts TIMESTAMP: beginning of the hour, UTC
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: name of the pod
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it (a static pod's hash); NULL when no source says
-- column container VARCHAR: name of the container
-- column probe_type VARCHAR: `liveness`, `readiness` or `startup`
-- column transitions BIGINT: rows of `probe_transitions`
-- column to_failure BIGINT: those that ended in `failure`
-- column to_success BIGINT: those that ended in `success`, the first one of a container included
CREATE VIEW probe_transitions_per_hour AS
SELECT
    node,
    min(seq) AS seq,
    date_trunc('hour', ts) AS ts,
    namespace,
    pod,
    pod_uid,
    container,
    probe_type,
    count(*) AS transitions,
    count(*) FILTER (to_result = 'failure') AS to_failure,
    count(*) FILTER (to_result = 'success') AS to_success
FROM probe_transitions
GROUP BY node, date_trunc('hour', ts), namespace, pod, pod_uid, container, probe_type;
