-- Memory of NUMA nodes that containers got (static policy of the memory manager): one row a container and type of memory.
-- The sizes come from `memory_manager_state`: of an init container what later ones did not use again.
-- kinds: memorymanager.MemoryAllocated memorymanager.MemoryReleased memorymanager.MemoryManagerStarted
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: name of the pod
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it (a static pod's hash); NULL when no source tells
-- column container VARCHAR: name of the container
-- column type VARCHAR: `memory` or `hugepages-SIZE`; NULL when no state file shows it
-- column size_bytes BIGINT: how much of it; NULL when no state file shows it
-- column numa_nodes INTEGER[]: NUMA nodes that it lies on, sorted; NULL when no state file shows it
-- column affinity INTEGER[]: NUMA nodes of the topology manager's affinity, sorted; NULL: any, or not told
-- column told_by VARCHAR: `log`, or `state_file` when only `memory_manager_state` shows it, which was read later
-- column released_ts TIMESTAMP: when it was given back, or a process began without a state file, UTC; NULL while it has it
CREATE VIEW memory_assignments AS
WITH given AS (
    SELECT
        node, seq, ts, ts_ns,
        body ->> 'pod_uid' AS pod_uid,
        body ->> 'container' AS container,
        body
    FROM records
    WHERE kind = 'memorymanager.MemoryAllocated'
),

taken AS (
    SELECT
        node, seq, ts, ts_ns,
        body ->> 'pod_uid' AS pod_uid,
        body ->> 'container' AS container
    FROM records
    WHERE kind = 'memorymanager.MemoryReleased'
        OR (kind = 'memorymanager.MemoryManagerStarted' AND body ->> 'restored' = 'false')
),

ends AS (
    SELECT g.node, g.seq, min(t.ts) AS ts
    FROM given AS g
    JOIN taken AS t
        ON t.node = g.node
        AND coalesce(t.pod_uid = g.pod_uid AND t.container = g.container, t.pod_uid IS NULL)
        AND (t.ts_ns, t.seq) > (g.ts_ns, g.seq)
    GROUP BY g.node, g.seq
),

blocks AS (
    SELECT node, seq, unnest((body -> 'blocks')::JSON[]) AS block
    FROM given
    WHERE json_type(body -> 'blocks') = 'ARRAY'
)

SELECT
    g.node,
    g.seq,
    g.ts,
    g.body ->> 'namespace' AS namespace,
    g.body ->> 'pod' AS pod,
    g.pod_uid,
    g.container,
    b.block ->> 'type' AS type,
    (b.block ->> 'size_bytes')::BIGINT AS size_bytes,
    (b.block -> 'numa_nodes')::INTEGER[] AS numa_nodes,
    (g.body -> 'affinity')::INTEGER[] AS affinity,
    g.body ->> 'told_by' AS told_by,
    ends.ts AS released_ts
FROM given AS g
LEFT JOIN blocks AS b ON b.node = g.node AND b.seq = g.seq
LEFT JOIN ends ON ends.node = g.node AND ends.seq = g.seq
ORDER BY g.node, g.seq, type;
