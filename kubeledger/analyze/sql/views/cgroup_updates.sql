-- Cgroups that appeared or whose values changed between two snapshots of the cgroup files.
-- All values are those after the change; a file that the snapshot does not hold is NULL.
-- kinds: cgroups.CgroupUpdated
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: time of the snapshot that shows the change, UTC, cut to microseconds
-- column cgroup VARCHAR: path below the controller, e.g. `kubepods/burstable/pod<uid>`
-- column qos_class VARCHAR: `Guaranteed`, `Burstable` or `BestEffort`; NULL for the root
-- column pod_uid VARCHAR: UID of the pod; NULL above the pods
-- column cpu_shares BIGINT: value of `cpu.shares`
-- column cpu_quota_us BIGINT: microseconds a period; -1 is no quota
-- column cpu_period_us BIGINT: length of a period in microseconds
-- column memory_limit_bytes BIGINT: limit as the kernel shows it; 9223372036854771712 is no limit in cgroup v1, -1 in v2
-- column level VARCHAR: `node`, `qos`, `pod` or `container`
-- column container_id VARCHAR: ID of the container; NULL above the containers
-- column sandbox BOOLEAN: it is the pod's sandbox; NULL when not known
-- column created BOOLEAN: the cgroup was not in the previous snapshot
-- column changed VARCHAR[]: names of the values that are new
-- column hugetlb_limit_bytes JSON: page size as in the file's name, and bytes
-- column unified JSON: cgroup v2 files and their text
-- column other JSON: further cgroup v1 files and their text
CREATE VIEW cgroup_updates AS
SELECT
    node,
    seq,
    ts,
    body ->> 'cgroup' AS cgroup,
    body ->> 'qos_class' AS qos_class,
    body ->> 'pod_uid' AS pod_uid,
    (body ->> 'cpu_shares')::BIGINT AS cpu_shares,
    (body ->> 'cpu_quota_us')::BIGINT AS cpu_quota_us,
    (body ->> 'cpu_period_us')::BIGINT AS cpu_period_us,
    (body ->> 'memory_limit_bytes')::BIGINT AS memory_limit_bytes,
    body ->> 'level' AS level,
    body ->> 'container_id' AS container_id,
    (body ->> 'sandbox')::BOOLEAN AS sandbox,
    (body ->> 'created')::BOOLEAN AS created,
    (body -> 'changed')::VARCHAR[] AS changed,
    body -> 'hugetlb_limit_bytes' AS hugetlb_limit_bytes,
    body -> 'unified' AS unified,
    body -> 'other' AS other
FROM records
WHERE kind = 'cgroups.CgroupUpdated';
