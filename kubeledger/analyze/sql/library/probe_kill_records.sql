-- title: Which records led from a probe's failure to the kill and the restart?
-- One row a kill, by the recorded causes: last tick, transition, kill, restart, and what the probe said last.
SELECT
    k.node,
    k.namespace || '/' || k.pod || '/' || k.container AS container,
    p.seq AS tick_seq,
    t.seq AS transition_seq,
    k.seq AS kill_seq,
    r.seq AS restart_seq,
    p.output AS last_output
FROM container_kills AS k
LEFT JOIN probe_transitions AS t ON t.node = k.node AND t.seq = k.cause_seq
-- A transition that the log does not show leaves the tick as the kill's own cause.
LEFT JOIN probe_ticks AS p ON p.node = k.node AND p.seq = coalesce(t.cause_seq, k.cause_seq)
LEFT JOIN (
    SELECT r.node, r.seq, coalesce(d.cause_seq, r.cause_seq) AS kill_seq
    FROM container_restarts AS r
    LEFT JOIN container_states AS d ON d.node = r.node AND d.seq = r.cause_seq
) AS r ON r.node = k.node AND r.kill_seq = k.seq
WHERE k.reason IN ('liveness_probe', 'startup_probe')
ORDER BY k.node, k.seq;
