-- CPUs that containers got alone (static policy of the CPU manager): one row an assignment.
-- kinds: cpumanager.CpusAllocated cpumanager.CpusReleased cpumanager.CpuManagerStarted
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: name of the pod
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it (a static pod's hash); NULL when no source says
-- column container VARCHAR: name of the container
-- column cpu_set VARCHAR: its CPUs as the kubelet writes them, e.g. `2-3,6`
-- column requested INTEGER: how many it asked for; NULL when no line says
-- column numa_nodes INTEGER[]: NUMA nodes of the affinity, sorted; NULL: any, or not known
-- column shared_pool VARCHAR: CPUs left for all other containers; NULL when no line says
-- column told_by VARCHAR: `log`, or `state_file` when only `cpu_manager_state` shows it, which was read later
-- column released_ts TIMESTAMP: when they went back to the shared pool, or a process began without a state file, UTC; NULL while it has them
CREATE VIEW cpu_assignments AS
SELECT
    g.node,
    g.seq,
    g.ts,
    g.body ->> 'namespace' AS namespace,
    g.body ->> 'pod' AS pod,
    g.body ->> 'pod_uid' AS pod_uid,
    g.body ->> 'container' AS container,
    g.body ->> 'cpu_set' AS cpu_set,
    (g.body ->> 'requested')::INTEGER AS requested,
    (g.body -> 'numa_nodes')::INTEGER[] AS numa_nodes,
    g.body ->> 'default_cpu_set' AS shared_pool,
    g.body ->> 'told_by' AS told_by,
    (
        SELECT min(t.ts)
        FROM records AS t
        WHERE t.kind IN ('cpumanager.CpusReleased', 'cpumanager.CpuManagerStarted')
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
WHERE g.kind = 'cpumanager.CpusAllocated'
ORDER BY g.node, g.seq;
