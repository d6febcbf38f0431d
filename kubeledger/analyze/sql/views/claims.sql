-- DRA devices that pods hold: one row a pod, claim and device that a driver prepared for it.
-- A claim without devices (its driver needs none) is one row, too.
-- kinds: dra.ClaimPrepared dra.ClaimReleased
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of pod and claim
-- column pod VARCHAR: name of the pod; NULL when no source says
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it
-- column claim VARCHAR: name of the claim
-- column claim_uid VARCHAR: UID of the claim
-- column driver VARCHAR: the driver that prepared the device; NULL where there is none
-- column pool VARCHAR: the device's pool; NULL up to 1.30, as the device
-- column device VARCHAR: name of the device in its pool
-- column cdi_device_ids VARCHAR[]: what the runtime is told of it
-- column shared BOOLEAN: another pod holds the claim at the same time
-- column told_by VARCHAR: `log`, or `state_file` when only `dra_manager_state` shows it, which was read later
-- column released_ts TIMESTAMP: when the pod no longer held it, UTC; NULL while it does
-- column unprepared BOOLEAN: the drivers unprepared the claim then; false: other pods still held it
CREATE VIEW claims AS
WITH held AS (
    SELECT
        p.node, p.seq, p.ts, p.ts_ns, p.body,
        (
            SELECT min_by({'ts': r.ts, 'unprepared': (r.body ->> 'unprepared')::BOOLEAN}, r.ts_ns)
            FROM records AS r
            WHERE r.kind IN ('dra.ClaimReleased', 'dra.ClaimPrepared')
                AND r.node = p.node
                AND (r.ts_ns, r.seq) > (p.ts_ns, p.seq)
                AND r.body ->> 'pod_uid' = p.body ->> 'pod_uid'
                AND r.body ->> 'claim_uid' = p.body ->> 'claim_uid'
        ) AS given_back
    FROM records AS p
    WHERE p.kind = 'dra.ClaimPrepared'
),

drivers AS (
    SELECT
        *,
        unnest(CASE
            WHEN json_keys(body -> 'drivers') = [] THEN [NULL]
            ELSE json_keys(body -> 'drivers')
        END) AS driver
    FROM held
),

devices AS (
    SELECT
        *,
        unnest(coalesce(
            nullif(((body -> 'drivers') -> driver)::JSON[], []), [NULL]
        )) AS device
    FROM drivers
)

SELECT
    d.node,
    d.seq,
    d.ts,
    d.body ->> 'namespace' AS namespace,
    d.body ->> 'pod' AS pod,
    d.body ->> 'pod_uid' AS pod_uid,
    d.body ->> 'claim' AS claim,
    d.body ->> 'claim_uid' AS claim_uid,
    d.driver,
    d.device ->> 'pool' AS pool,
    d.device ->> 'device' AS device,
    (d.device -> 'cdi_device_ids')::VARCHAR[] AS cdi_device_ids,
    EXISTS (
        SELECT 1
        FROM held AS o
        WHERE o.node = d.node
            AND o.body ->> 'claim_uid' = d.body ->> 'claim_uid'
            AND o.body ->> 'pod_uid' <> d.body ->> 'pod_uid'
            AND o.ts < coalesce(d.given_back.ts, 'infinity'::TIMESTAMP)
            AND d.ts < coalesce(o.given_back.ts, 'infinity'::TIMESTAMP)
    ) AS shared,
    d.body ->> 'told_by' AS told_by,
    d.given_back.ts AS released_ts,
    d.given_back.unprepared AS unprepared
FROM devices AS d
ORDER BY d.node, d.seq, d.driver, pool, device;
