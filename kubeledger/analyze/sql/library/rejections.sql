-- title: Why was each pod rejected?
-- One row a refusal, with the kubelet's reason and message.
SELECT
    node,
    ts,
    namespace || '/' || pod AS pod,
    reason,
    message,
    seq
FROM admissions
WHERE NOT admitted
ORDER BY node, seq;
