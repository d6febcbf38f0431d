-- title: Which cgroup values of a pod changed, from what to what?
-- One row a cgroup and changed value. Values before are those of the previous record of that cgroup.
-- param pod VARCHAR: the pod as NAMESPACE/NAME, NAME or UID
WITH uids AS (
    SELECT pod_uid FROM pods WHERE $pod IN (pod, namespace || '/' || pod, pod_uid)
    UNION
    SELECT pod_uid FROM admissions WHERE $pod IN (pod, namespace || '/' || pod, pod_uid)
    UNION
    SELECT pod_uid FROM cgroup_updates WHERE pod_uid = $pod
),

cells AS (
    SELECT
        node, seq, ts, cgroup, created, changed,
        unnest(['cpu_shares', 'cpu_quota_us', 'cpu_period_us', 'memory_limit_bytes']) AS field,
        unnest([cpu_shares, cpu_quota_us, cpu_period_us, memory_limit_bytes]) AS value
    FROM cgroup_updates
    WHERE pod_uid IN (FROM uids)
)

SELECT
    node,
    ts,
    cgroup,
    field,
    CASE WHEN NOT created
        THEN lag(value) OVER (PARTITION BY node, cgroup, field ORDER BY seq)
    END AS value_before,
    value,
    created,
    seq
FROM cells
QUALIFY list_contains(changed, field)
ORDER BY node, seq, field;
