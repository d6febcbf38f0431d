-- Memory of NUMA nodes that containers got (static policy of the memory manager): one row a container and type of memory.
-- The sizes come from `memory_manager_state`: of an init container what later ones did not use again.
-- kinds: memorymanager.MemoryAllocated memorymanager.MemoryReleased memorymanager.MemoryManagerStarted
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: name of the pod
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it (a static pod's hash); NULL when no source says
-- column container VARCHAR: name of the container
-- column type VARCHAR: `memory` or `hugepages-SIZE`; NULL when no state file shows it
-- column size_bytes BIGINT: how much of it; NULL when no state file shows it
-- column numa_nodes INTEGER[]: NUMA nodes that it lies on, sorted; NULL when no state file shows it
-- column affinity INTEGER[]: NUMA nodes of the topology manager's affinity, sorted; NULL: any, or not known
-- column told_by VARCHAR: `log`, or `state_file` when only `memory_manager_state` shows it, which was read later
-- column released_ts TIMESTAMP: when it was given back, or a process began without a state file, UTC; NULL while it has it
CREATE VIEW memory_assignments AS
SELECT
    g.node,
    g.seq,
    g.ts,
    g.body ->> 'namespace' AS namespace,
    g.body ->> 'pod' AS pod,
    g.body ->> 'pod_uid' AS pod_uid,
    g.body ->> 'container' AS container,
    block ->> 'type' AS type,
    (block ->> 'size_bytes')::BIGINT AS size_bytes,
    (block -> 'numa_nodes')::INTEGER[] AS numa_nodes,
    (g.body -> 'affinity')::INTEGER[] AS affinity,
    g.body ->> 'told_by' AS told_by,
    (
        SELECT min(t.ts)
        FROM records AS t
        WHERE t.kind IN ('memorymanager.MemoryReleased', 'memorymanager.MemoryManagerStarted')
            AND t.node = g.node
            AND (t.ts_ns, t.seq) > (g.ts_ns, g.seq)
            AND (
                t.body ->> 'restored' = 'false'
                OR (
                    t.body ->> 'pod_uid' = g.body ->> 'pod_uid'
                    AND t.body ->> 'container' = g.body ->> 'container'
                )
            )
    ) AS released_ts
FROM records AS g
LEFT JOIN LATERAL unnest(
    CASE WHEN json_type(g.body -> 'blocks') = 'ARRAY' THEN (g.body -> 'blocks')::JSON[] END
) AS blocks(block) ON true
WHERE g.kind = 'memorymanager.MemoryAllocated'
ORDER BY g.node, g.seq, type;
