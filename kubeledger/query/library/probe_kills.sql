-- title: Which containers did a probe kill, and were they started again?
-- From the probe's last tick over the transition and the kill to the restart, by the recorded causes.
SELECT
    k.node,
    k.ts AS killed,
    k.namespace || '/' || k.pod AS pod,
    k.container,
    coalesce(t.probe_type, split_part(k.reason, '_', 1)) AS probe_type,
    t.run AS failures_in_a_row,
    t.threshold,
    p.output AS last_output,
    k.grace_period_s,
    r.ts AS restarted,
    r.restart_count,
    p.seq AS tick_seq,
    t.seq AS transition_seq,
    k.seq AS kill_seq,
    r.seq AS restart_seq
FROM container_kills AS k
LEFT JOIN probe_transitions AS t ON t.node = k.node AND t.seq = k.cause_seq
-- A transition that the log does not show leaves the tick as the kill's own cause.
LEFT JOIN probe_ticks AS p ON p.node = k.node AND p.seq = coalesce(t.cause_seq, k.cause_seq)
LEFT JOIN (
    SELECT r.*, coalesce(d.cause_seq, r.cause_seq) AS kill_seq
    FROM container_restarts AS r
    -- The restart may be caused by the death that the kill caused.
    LEFT JOIN container_states AS d ON d.node = r.node AND d.seq = r.cause_seq
) AS r ON r.node = k.node AND r.kill_seq = k.seq
WHERE k.reason IN ('liveness_probe', 'startup_probe')
ORDER BY k.node, k.seq;
