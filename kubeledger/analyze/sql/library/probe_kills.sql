-- title: Which containers did a probe kill, and were they started again?
-- One row a kill: how many failures in a row led to it, and how soon the container ran again; NULL: not as far as the records go. `probe_kill_records` names the records.
SELECT
    k.node,
    k.ts AS killed,
    k.namespace || '/' || k.pod || '/' || k.container AS container,
    coalesce(t.probe_type, split_part(k.reason, '_', 1)) AS probe,
    t.run AS failures,
    k.grace_period_s AS grace_s,
    round(epoch(r.ts - k.ts), 1) AS restarted_after_s
FROM container_kills AS k
LEFT JOIN probe_transitions AS t ON t.node = k.node AND t.seq = k.cause_seq
LEFT JOIN (
    SELECT r.*, coalesce(d.cause_seq, r.cause_seq) AS kill_seq
    FROM container_restarts AS r
    -- The restart may be caused by the death that the kill caused.
    LEFT JOIN container_states AS d ON d.node = r.node AND d.seq = r.cause_seq
) AS r ON r.node = k.node AND r.kill_seq = k.seq
WHERE k.reason IN ('liveness_probe', 'startup_probe')
ORDER BY k.node, k.seq;
