-- title: Who was preempted, and for whom?
-- One row a victim: what was missing when the critical pod came, and whether the kill succeeded.
SELECT
    node,
    ts,
    victim_namespace || '/' || victim_pod AS victim,
    preemptor_namespace || '/' || preemptor_pod AS preemptor,
    insufficient,
    evicted,
    seq
FROM preemptions
ORDER BY node, seq;
