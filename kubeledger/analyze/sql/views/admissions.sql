-- Pods that the kubelet admitted or refused, one row each time it decided.
-- kinds: lifecycle.PodAdmitted lifecycle.PodRejected
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: name of the pod
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it (a static pod's hash); NULL when no source says
-- column admitted BOOLEAN: true when the pod was admitted
-- column reason VARCHAR: why it was refused, as in the pod's status (`OutOfcpu`, `UnexpectedAdmissionError`); NULL when admitted
-- column message VARCHAR: the kubelet's message on a refusal; NULL when admitted
-- column inferred BOOLEAN: true when no line says so and it follows from the pod being synced
CREATE VIEW admissions AS
SELECT
    node,
    seq,
    ts,
    body ->> 'namespace' AS namespace,
    body ->> 'pod' AS pod,
    body ->> 'pod_uid' AS pod_uid,
    kind = 'lifecycle.PodAdmitted' AS admitted,
    body ->> 'reason' AS reason,
    body ->> 'message' AS message,
    kind = 'lifecycle.PodAdmitted' AND coalesce((body ->> 'inferred')::BOOLEAN, true) AS inferred
FROM records
WHERE kind IN ('lifecycle.PodAdmitted', 'lifecycle.PodRejected');
