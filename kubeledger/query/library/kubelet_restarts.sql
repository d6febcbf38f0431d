-- title: When did the kubelet start, in which version, and which processes ended by themselves?
-- One row a kubelet process.
SELECT
    node,
    ts,
    kubelet_version,
    pid,
    restart,
    exited_ts,
    exit_message,
    seq
FROM kubelet_starts
ORDER BY node, seq;
