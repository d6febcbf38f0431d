-- Kubelet processes, and how they ended, where a line says. One whose start is not in the log
-- has the row of its end, if that is recorded.
-- kinds: node.KubeletStarted node.KubeletExited
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column pid BIGINT: process ID in the log; NULL when the form of the log has none
-- column kubelet_version VARCHAR: version, e.g. `1.36.2`; NULL when unknown
-- column version_source VARCHAR: source of the version
-- column restart BOOLEAN: another kubelet process ran before it in the same log
-- column exited_ts TIMESTAMP: when it ended, UTC; NULL while it runs, and where no line says (a signal leaves none, unless systemd's lines are there)
-- column exit_reason VARCHAR: `error`, `fatal`, `panic`, `signal` or `stopped`; NULL as above
-- column exit_message VARCHAR: what it said last, with the error; NULL as above
-- column from_start BOOLEAN: false where the log does not hold its start, which was before `ts`
CREATE VIEW kubelet_starts AS
WITH starts AS (
    SELECT node, seq, ts, body, lead(seq) OVER (PARTITION BY node ORDER BY seq) AS next_seq
    FROM records
    WHERE kind = 'node.KubeletStarted'
),

exits AS (
    SELECT s.node, s.seq, min(e.ts) AS ts, min_by(e.body, e.seq) AS body
    FROM starts AS s
    JOIN records AS e
        ON e.kind = 'node.KubeletExited'
        AND e.node = s.node
        AND (e.body ->> 'pid') IS NOT DISTINCT FROM (s.body ->> 'pid')
        AND e.seq > s.seq
        AND (s.next_seq IS NULL OR e.seq < s.next_seq)
    GROUP BY s.node, s.seq
),

unseen AS (
    SELECT e.node, e.seq, e.ts, e.body
    FROM records AS e
    WHERE e.kind = 'node.KubeletExited'
        AND NOT EXISTS (
            SELECT 1 FROM starts AS s
            WHERE s.node = e.node
                AND (s.body ->> 'pid') IS NOT DISTINCT FROM (e.body ->> 'pid')
                AND s.seq < e.seq
        )
)

SELECT
    s.node,
    s.seq,
    s.ts,
    (s.body ->> 'pid')::BIGINT AS pid,
    s.body ->> 'kubelet_version' AS kubelet_version,
    s.body ->> 'version_source' AS version_source,
    coalesce((s.body ->> 'restart')::BOOLEAN, false) AS restart,
    exits.ts AS exited_ts,
    exits.body ->> 'reason' AS exit_reason,
    exits.body ->> 'message' AS exit_message,
    coalesce((s.body ->> 'from_start')::BOOLEAN, true) AS from_start
FROM starts AS s
LEFT JOIN exits ON exits.node = s.node AND exits.seq = s.seq
UNION ALL
SELECT
    node,
    seq,
    ts,
    (body ->> 'pid')::BIGINT,
    NULL,
    NULL,
    (body ->> 'pid') IS NOT NULL
        AND EXISTS (SELECT 1 FROM starts AS s WHERE s.node = unseen.node AND s.seq < unseen.seq),
    ts,
    body ->> 'reason',
    body ->> 'message',
    false
FROM unseen
ORDER BY node, seq;
