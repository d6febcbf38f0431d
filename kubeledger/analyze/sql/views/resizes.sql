-- What became of in-place resizes of running pods, one row a change.
-- kinds: lifecycle.PodResized
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: name of the pod
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it; NULL when no source says
-- column outcome VARCHAR: `allocated`, `deferred`, `infeasible` or `actuated`
-- column reason VARCHAR: the condition's reason, or the predicate's that did not fit; NULL if not said
-- column message VARCHAR: the kubelet's words; NULL if there are none
-- column resources JSON: container -> `requests` and `limits`; NULL when the source does not show them
CREATE VIEW resizes AS
SELECT
    node,
    seq,
    ts,
    body ->> 'namespace' AS namespace,
    body ->> 'pod' AS pod,
    body ->> 'pod_uid' AS pod_uid,
    body ->> 'outcome' AS outcome,
    body ->> 'reason' AS reason,
    body ->> 'message' AS message,
    body -> 'resources' AS resources
FROM records
WHERE kind = 'lifecycle.PodResized';
