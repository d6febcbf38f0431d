-- title: Which probes fail most, and what do they say?
-- One row a probe with at least one tick that was no success; the output is that of the last such tick.
SELECT
    node,
    namespace || '/' || pod AS pod,
    container,
    probe_type,
    count(*) AS ticks,
    count(*) FILTER (result <> 'success') AS not_successful,
    max(ts) FILTER (result <> 'success') AS last_failure,
    arg_max(output, seq) FILTER (result <> 'success') AS last_output
FROM probe_ticks
GROUP BY ALL
HAVING not_successful > 0
ORDER BY not_successful DESC, node, pod, container, probe_type;
