-- Critical pods that did not fit, where no set of victims would have helped.
-- kinds: preemption.PreemptionFailed
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of the critical pod
-- column pod VARCHAR: its name
-- column pod_uid VARCHAR: its UID
-- column insufficient VARCHAR: what was missing, as `resource=amount` joined by `, ` (cpu in millicores, memory in bytes); NULL where no source says, as in the kubelet's log
-- column unmet VARCHAR: in the same form, what would be missing still with every pod gone that it may preempt, as the error says
-- column error VARCHAR: the kubelet's error text
CREATE VIEW preemption_failures AS
SELECT
    node,
    seq,
    ts,
    body ->> 'preemptor_namespace' AS namespace,
    body ->> 'preemptor_pod' AS pod,
    body ->> 'preemptor_uid' AS pod_uid,
    list_aggregate(
        [(i ->> 'resource') || '=' || (i ->> 'quantity') FOR i IN (body -> 'insufficient')::JSON[]],
        'string_agg',
        ', '
    ) AS insufficient,
    nullif(
        array_to_string(
            list_transform(
                regexp_extract_all(body ->> 'error', '\(res: [^,\s]+, q: -?\d+\)'),
                lambda one: regexp_replace(one, '\(res: ([^,\s]+), q: (-?\d+)\)', '\1=\2')
            ),
            ', '
        ),
        ''
    ) AS unmet,
    body ->> 'error' AS error
FROM records
WHERE kind = 'preemption.PreemptionFailed';
