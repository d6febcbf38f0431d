-- Pods that were preempted so that a critical pod fits: one row a victim, in the order of the kills.
-- kinds: preemption.PodPreempted
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column victim_namespace VARCHAR: namespace of the pod that had to go
-- column victim_pod VARCHAR: its name
-- column victim_uid VARCHAR: its UID
-- column preemptor_namespace VARCHAR: namespace of the critical pod; NULL when no source names it
-- column preemptor_pod VARCHAR: its name
-- column preemptor_uid VARCHAR: its UID
-- column insufficient VARCHAR: what was missing, as `resource=amount` joined by `, ` (cpu in millicores, memory in bytes); NULL when no source says
-- column evicted BOOLEAN: true when the kill succeeded, false when it failed, NULL when not known
-- column preemptor_inferred BOOLEAN: true when the line does not name the preemptor and it follows from order
-- column cause_seq BIGINT: seq of the record that led to this one
CREATE VIEW preemptions AS
SELECT
    node,
    seq,
    ts,
    body ->> 'victim_namespace' AS victim_namespace,
    body ->> 'victim_pod' AS victim_pod,
    body ->> 'victim_uid' AS victim_uid,
    body ->> 'preemptor_namespace' AS preemptor_namespace,
    body ->> 'preemptor_pod' AS preemptor_pod,
    body ->> 'preemptor_uid' AS preemptor_uid,
    list_aggregate(
        [(i ->> 'resource') || '=' || (i ->> 'quantity') FOR i IN (body -> 'insufficient')::JSON[]],
        'string_agg',
        ', '
    ) AS insufficient,
    (body ->> 'evicted')::BOOLEAN AS evicted,
    coalesce((body ->> 'preemptor_inferred')::BOOLEAN, false) AS preemptor_inferred,
    cause_seq
FROM records
WHERE kind = 'preemption.PodPreempted';
