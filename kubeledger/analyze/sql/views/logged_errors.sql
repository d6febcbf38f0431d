-- Lines of severity W, E and F: one row a shape, the pod that they name, and the kubelet process.
-- kinds: node.ErrorsLogged
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the first record on its node, gapless from 1
-- column ts TIMESTAMP: the first of these lines, UTC, cut to microseconds
-- column severity VARCHAR: `W` (warning), `E` (error) or `F` (fatal)
-- column source VARCHAR: the caller's file, `kubelet.go`; empty where the form of the log has none
-- column shape VARCHAR: the message without its values, for which `*` stands; of a short one its error's, too
-- column namespace VARCHAR: of the pod that the lines name; NULL where they name none
-- column pod VARCHAR: its name; NULL where the lines are about the node, or hold no more than `pod_uid`
-- column count BIGINT: how many lines
-- column last_ts TIMESTAMP: the last of them
-- column recorded BOOLEAN: other records tell what they say
-- column example_seq BIGINT: record whose evidence is one of these lines
-- column pod_uid VARCHAR: UID of the pod; NULL when the source does not hold it
-- column pid BIGINT: process ID of the kubelet; NULL where the form of the log has none
-- column example VARCHAR: the line that `example_seq` shows, as it was written
CREATE VIEW logged_errors AS
SELECT
    node,
    min(seq) AS seq,
    make_timestamp(min((body ->> 'first_ts_ns')::BIGINT) // 1000) AS ts,
    body ->> 'severity' AS severity,
    body ->> 'source' AS source,
    body ->> 'shape' AS shape,
    body ->> 'namespace' AS namespace,
    body ->> 'pod' AS pod,
    sum(coalesce((body ->> 'count')::BIGINT, 1))::BIGINT AS count,
    make_timestamp(max((body ->> 'last_ts_ns')::BIGINT) // 1000) AS last_ts,
    coalesce((body ->> 'recorded')::BOOLEAN, false) AS recorded,
    min(seq) AS example_seq,
    body ->> 'pod_uid' AS pod_uid,
    (body ->> 'pid')::BIGINT AS pid,
    arg_min(evidence[1].text, seq) AS example
FROM records
WHERE kind = 'node.ErrorsLogged'
GROUP BY node, severity, source, shape, namespace, pod, recorded, pod_uid, pid;
