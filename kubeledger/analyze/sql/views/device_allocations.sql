-- Devices that containers got: one row a container and resource.
-- `released_ts` is when the device manager gave them back. It does so lazily, at a later
-- admission: until then the devices of a pod that ended are still held, as its checkpoint shows.
-- kinds: devicemanager.DevicesAllocated devicemanager.DevicesReleased lifecycle.PodTerminated
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: name of the pod
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it (a static pod's hash); NULL when no source says
-- column container VARCHAR: name of the container
-- column resource VARCHAR: extended resource, e.g. `example.com/gpu`
-- column device_ids VARCHAR[]: IDs of the devices, sorted
-- column numa_nodes INTEGER[]: NUMA nodes of the devices, sorted, as the checkpoint holds them (-1: without topology); NULL when no checkpoint shows this allocation
-- column released_ts TIMESTAMP: when the device manager gave them back, UTC; NULL while they are held
-- column pod_terminated_ts TIMESTAMP: when the pod was terminated, UTC; NULL when it was not
CREATE VIEW device_allocations AS
WITH allocated AS (
    SELECT
        node, seq, ts, ts_ns,
        body ->> 'namespace' AS namespace,
        body ->> 'pod' AS pod,
        body ->> 'pod_uid' AS pod_uid,
        body ->> 'container' AS container,
        body ->> 'resource' AS resource,
        body
    FROM records
    WHERE kind = 'devicemanager.DevicesAllocated'
),

released AS (
    SELECT
        node, seq, ts, ts_ns,
        body ->> 'pod_uid' AS pod_uid,
        body ->> 'container' AS container,
        body ->> 'resource' AS resource
    FROM records
    WHERE kind = 'devicemanager.DevicesReleased'
),

terminated AS (
    SELECT
        node, seq, ts, ts_ns,
        body ->> 'namespace' AS namespace,
        body ->> 'pod' AS pod,
        body ->> 'pod_uid' AS pod_uid
    FROM records
    WHERE kind = 'lifecycle.PodTerminated'
),

-- A release without a container or resource is one of all that the pod held.
given_back AS (
    SELECT a.node, a.seq, min(r.ts) AS ts
    FROM allocated AS a
    JOIN released AS r
        ON r.node = a.node
        AND r.pod_uid = a.pod_uid
        AND coalesce(r.container, a.container) = a.container
        AND coalesce(r.resource, a.resource) = a.resource
        AND (r.ts_ns > a.ts_ns OR (r.ts_ns = a.ts_ns AND r.seq > a.seq))
    GROUP BY a.node, a.seq
),

-- Pods are compared by UID, and by name only where one side has no UID.
pod_gone AS (
    SELECT a.node, a.seq, min(t.ts) AS ts
    FROM allocated AS a
    JOIN terminated AS t
        ON t.node = a.node
        AND (t.ts_ns > a.ts_ns OR (t.ts_ns = a.ts_ns AND t.seq > a.seq))
        AND coalesce(
            t.pod_uid = a.pod_uid, t.namespace = a.namespace AND t.pod = a.pod
        )
    GROUP BY a.node, a.seq
)

SELECT
    a.node,
    a.seq,
    a.ts,
    a.namespace,
    a.pod,
    a.pod_uid,
    a.container,
    a.resource,
    (a.body -> 'device_ids')::VARCHAR[] AS device_ids,
    CASE WHEN json_type(a.body -> 'numa') = 'OBJECT'
        THEN list_sort([
            key::INTEGER FOR key IN json_keys(a.body -> 'numa')
            IF try_cast(key AS INTEGER) IS NOT NULL
        ])
    END AS numa_nodes,
    given_back.ts AS released_ts,
    pod_gone.ts AS pod_terminated_ts
FROM allocated AS a
LEFT JOIN given_back ON given_back.node = a.node AND given_back.seq = a.seq
LEFT JOIN pod_gone ON pod_gone.node = a.node AND pod_gone.seq = a.seq
ORDER BY a.node, a.seq;
