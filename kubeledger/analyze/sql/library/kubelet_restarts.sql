-- title: When did the kubelet start, in which version, and which processes ended by themselves?
-- One row a kubelet process; of one whose start is not in the log (from_start is false), ts is when
-- it was first seen.
SELECT
    node,
    ts,
    kubelet_version,
    pid,
    restart,
    from_start,
    exited_ts,
    exit_message,
    seq
FROM kubelet_starts
ORDER BY node, seq;
