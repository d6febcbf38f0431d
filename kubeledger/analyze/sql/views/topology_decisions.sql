-- Merged hints that the topology manager settled on.
-- kinds: topologymanager.AffinityDecided
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: name of the pod
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it (a static pod's hash); NULL when no source says
-- column container VARCHAR: name of the container; NULL in pod scope
-- column numa_nodes INTEGER[]: NUMA nodes of the merged hint; NULL means any
-- column preferred BOOLEAN: the merged hint is a preferred one
-- column policy VARCHAR: topology manager policy; NULL when not known
-- column admit BOOLEAN: the policy admits the hint; NULL when not known
CREATE VIEW topology_decisions AS
SELECT
    node,
    seq,
    ts,
    body ->> 'namespace' AS namespace,
    body ->> 'pod' AS pod,
    body ->> 'pod_uid' AS pod_uid,
    body ->> 'container' AS container,
    (body -> 'hint' -> 'numa_nodes')::INTEGER[] AS numa_nodes,
    (body -> 'hint' ->> 'preferred')::BOOLEAN AS preferred,
    body ->> 'policy' AS policy,
    (body ->> 'admit')::BOOLEAN AS admit
FROM records
WHERE kind = 'topologymanager.AffinityDecided';
