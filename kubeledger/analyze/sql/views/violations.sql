-- What can never be, whatever was decided: one device in two pods, reserved CPUs given away.
-- A query that names this view replays the ledger first.
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record that shows it
-- column ts TIMESTAMP: its time, UTC, cut to microseconds
-- column invariant VARCHAR: `device_in_two_lives`, `cpu_in_two_lives`, `reserved_cpu_given`, `pools_overlap`, `pool_empty`, `memory_in_two_lives`, `memory_groups_overlap`, `memory_state_refused`, `more_devices_than_exist`, `container_twice` or `claim_unprepared_in_use`
-- column subject VARCHAR: what it is about, as `kubeledger why` takes it
-- column message VARCHAR: one sentence
-- column seqs BIGINT[]: numbers of the records that show it together
-- column bugs VARCHAR[]: known bugs of that kubelet that do so, e.g. `kubernetes#137534`
CREATE VIEW violations AS
SELECT
    node,
    seq,
    make_timestamp(ts_ns // 1000) AS ts,
    invariant,
    subject,
    message,
    seqs,
    bugs
FROM stored.violated;
