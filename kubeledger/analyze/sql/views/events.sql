-- Every record, with the pod and container it is about and where it stands in its source.
-- A preemption is about its victim, a failed preemption about the preemptor.
-- kinds: all
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column ts_ns BIGINT: when, in nanoseconds since the Unix epoch, exact
-- column role VARCHAR: `observation` (read from the world) or `decision` (what the kubelet did)
-- column kind VARCHAR: what kind of record, e.g. `lifecycle.PodAdmitted`
-- column v INTEGER: schema version of the kind
-- column cause_seq BIGINT: seq of the record that led to this one; NULL when none is known
-- column namespace VARCHAR: namespace of the pod the record is about; NULL when it is about none
-- column pod VARCHAR: name of that pod; NULL when the record holds only its UID or is about none
-- column pod_uid VARCHAR: UID of that pod as the kubelet uses it
-- column container VARCHAR: name of the container the record is about
-- column source_file VARCHAR: file of the first piece of evidence, relative to the bundle
-- column source_line BIGINT: 1-based line of it; NULL when the evidence is a whole file
-- column body JSON: the fact itself
CREATE VIEW events AS
SELECT
    node,
    seq,
    ts,
    ts_ns,
    role,
    kind,
    v,
    cause_seq,
    namespace,
    pod,
    pod_uid,
    container,
    source_file,
    source_line,
    body
FROM stored.rows;
