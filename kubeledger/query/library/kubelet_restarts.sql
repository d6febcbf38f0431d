-- title: When did the kubelet start, and in which version?
-- One row a kubelet process.
SELECT
    node,
    ts,
    kubelet_version,
    pid,
    restart,
    seq
FROM kubelet_starts
ORDER BY node, seq;
