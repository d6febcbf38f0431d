-- title: What do the nodes cost: storage and processor time?
-- One row a pool; processor time is that of the runs that made what is there now. A mebibyte is of the sources as they lay there.
SELECT
    pool,
    count(*) AS nodes,
    sum(records)::BIGINT AS records,
    round(sum(source_bytes) / 1048576, 1) AS source_mib,
    round(sum(lake_bytes) / 1048576, 1) AS lake_mib,
    round(sum(import_cpu_ms) / 1000, 1) AS import_cpu_s,
    round(sum(verify_cpu_ms) / 1000, 1) AS verify_cpu_s,
    round(sum(write_cpu_ms) / 1000, 1) AS write_cpu_s,
    round(sum(import_cpu_ms + verify_cpu_ms + write_cpu_ms) / 1000 / count(*), 2) AS cpu_s_a_node
FROM nodes
GROUP BY pool
ORDER BY pool;
