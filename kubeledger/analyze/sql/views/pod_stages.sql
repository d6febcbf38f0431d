-- Stages of their way that pods and containers did not get past at once, one row a stage and time.
-- A query that names this view replays the ledger first.
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record that tells it first
-- column ts TIMESTAMP: the first failure, UTC, cut to microseconds
-- column namespace VARCHAR: namespace of the pod
-- column pod VARCHAR: name of the pod; NULL when no source says
-- column pod_uid VARCHAR: UID of the pod as the kubelet uses it; NULL when no source says
-- column container VARCHAR: name of the container; NULL where the stage is the pod's
-- column stage VARCHAR: `admission`, `config`, `network`, `cgroup`, `volumes`, `resources`, `sandbox`, `image`, `create`, `start`, `hook`, `run`, `ready`, `stop` or `teardown`
-- column reason VARCHAR: the kubelet's word, as last said, e.g. `ImagePullBackOff`
-- column message VARCHAR: what went wrong
-- column attempts BIGINT: how often it failed, as far as the sources show it
-- column last_ts TIMESTAMP: the last failure
-- column passed_ts TIMESTAMP: when it got past the stage; NULL: still in it, or the pod ended before
-- column about VARCHAR: the image, volume, claim, secret or config map that it waits for; NULL if not named
-- column ended_ts TIMESTAMP: when the pod was stopped or gone before it got past; NULL otherwise
-- column passed_seq BIGINT: number of the record that shows that it got past
CREATE VIEW pod_stages AS
SELECT
    node,
    seq,
    make_timestamp(ts_ns // 1000) AS ts,
    namespace,
    pod,
    pod_uid,
    container,
    stage,
    reason,
    message,
    attempts,
    make_timestamp(last_ts_ns // 1000) AS last_ts,
    make_timestamp(passed_ts_ns // 1000) AS passed_ts,
    about,
    make_timestamp(ended_ts_ns // 1000) AS ended_ts,
    passed_seq
FROM stored.stages;
