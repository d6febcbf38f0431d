-- What the kubelet decided about pulling images, one row a decision.
-- kinds: imagepull.PullDecided imagepull.PullEnded
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1; of a pull of which only the end is recorded that one
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: name of the pod
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it; NULL when no source says
-- column container VARCHAR: name of the container; NULL when the source names none
-- column image VARCHAR: as the pod names it; NULL when no source says
-- column decision VARCHAR: `pull`; `back_off`: the last pull failed too recently; `present`: it is there, and the pod may use it (said where the kubelet verifies that); `never`: the policy does not pull it
-- column outcome VARCHAR: of a pull: `pulled`, `failed`, or `refused` (registryPullQPS); NULL when its end is not recorded
-- column reason VARCHAR: why the container waits then, e.g. `ErrImagePull`; NULL when no source says
-- column error VARCHAR: why it failed; NULL without an error
-- column ended_ts TIMESTAMP: when the pull ended; NULL when that is not recorded
-- column whole_ms BIGINT: from the request to its end; NULL when no source says
-- column pull_ms BIGINT: of that, what the runtime took: the rest was the wait for other pulls; NULL when no source says
-- column size_bytes BIGINT: of the image; NULL when no source says
-- column ended_seq BIGINT: number of the record of its end; NULL without one
CREATE VIEW image_pulls AS
SELECT
    coalesce(d.node, e.node) AS node,
    coalesce(d.seq, e.seq) AS seq,
    coalesce(d.ts, e.ts) AS ts,
    coalesce(d.body, e.body) ->> 'namespace' AS namespace,
    coalesce(d.body, e.body) ->> 'pod' AS pod,
    coalesce(d.body, e.body) ->> 'pod_uid' AS pod_uid,
    coalesce(d.body, e.body) ->> 'container' AS container,
    coalesce(d.body, e.body) ->> 'image' AS image,
    coalesce(d.body ->> 'decision', 'pull') AS decision,
    e.body ->> 'outcome' AS outcome,
    e.body ->> 'reason' AS reason,
    nullif(e.body ->> 'error', '') AS error,
    e.ts AS ended_ts,
    (e.body ->> 'whole_ms')::BIGINT AS whole_ms,
    (e.body ->> 'pull_ms')::BIGINT AS pull_ms,
    (e.body ->> 'size_bytes')::BIGINT AS size_bytes,
    e.seq AS ended_seq
FROM (SELECT * FROM records WHERE kind = 'imagepull.PullDecided') AS d
FULL JOIN (SELECT * FROM records WHERE kind = 'imagepull.PullEnded') AS e
    ON e.node = d.node AND e.cause_seq = d.seq
ORDER BY node, seq;
