-- Nodes of the lake: one row a node, from its newest marker.
-- column node VARCHAR: its key in the lake; every view calls it so
-- column name VARCHAR: as it calls itself
-- column cluster VARCHAR: as given to the import; NULL when none was
-- column pool VARCHAR: as given to the import, or from the labels that cloud providers put on nodes; NULL without either
-- column kubelet_version VARCHAR: that ran last; NULL when not known
-- column kubelet_versions VARCHAR[]: that ran, in the order of their first start
-- column first_ts TIMESTAMP: of the records, UTC, cut to microseconds
-- column last_ts TIMESTAMP: of the records, UTC, cut to microseconds
-- column records BIGINT: without superseded ones
-- column decisions BIGINT: that were verified, the sum of the next four
-- column match BIGINT: as the kubelet decides
-- column admissible BIGINT: otherwise, but the kubelet could
-- column impossible BIGINT: as the kubelet could not
-- column unverifiable BIGINT: of which inputs are missing
-- column inferred BIGINT: that an import inferred, in no other count
-- column contradictions BIGINT: between witnesses
-- column lines BIGINT: of the logs
-- column lines_not_understood BIGINT: of them that no importer knows, see `not_understood`
-- column sources VARCHAR[]: URLs, in the order of their import
-- column source_bytes BIGINT: of all sources, as they lay there
-- column lake_bytes BIGINT: of the node's files in the lake
-- column import_cpu_ms BIGINT: processor time of the import
-- column verify_cpu_ms BIGINT: processor time of the verification
-- column write_cpu_ms BIGINT: processor time for the lake's files
-- column machine_id VARCHAR: of the machine; NULL when not known
-- column generation BIGINT: 1 for the node's first import
-- column chain VARCHAR: chain digest of the last record
-- column rules VARCHAR: version of the rules that verified
CREATE VIEW nodes AS
SELECT
    node,
    name,
    cluster,
    pool,
    kubelet_versions[-1] AS kubelet_version,
    kubelet_versions,
    make_timestamp(first_ts_ns // 1000) AS first_ts,
    make_timestamp(last_ts_ns // 1000) AS last_ts,
    records,
    decisions,
    match,
    admissible,
    impossible,
    unverifiable,
    inferred,
    contradictions,
    lines,
    lines_not_understood,
    sources,
    source_bytes,
    lake_bytes,
    import_cpu_ms,
    verify_cpu_ms,
    write_cpu_ms,
    machine_id,
    generation,
    chain,
    rules
FROM stored.nodes;
