-- What verification says of each decision. A query that names this view verifies the ledger first.
-- column node VARCHAR: node the decision is about
-- column seq BIGINT: number of the record that the finding stands at, gapless from 1
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column decision_seq BIGINT: the same number where a decision was recorded; NULL for a decision that was due and did not come
-- column kind VARCHAR: kind of the decision, e.g. `lifecycle.PodAdmitted`
-- column subject VARCHAR: what it is about, as `kubeledger why` takes it
-- column verdict VARCHAR: `match`, `admissible`, `impossible` or `unverifiable`
-- column why VARCHAR: one sentence
-- column missing VARCHAR[]: inputs that are missing, each as a noun phrase
-- column expected JSON: what the kubelet decides, as fields of the decision; NULL where that is not known
-- column recorded JSON: the same fields as they were recorded; NULL for a decision that did not come
-- column rule VARCHAR: the kubelet's function that decides so
-- column inferred BOOLEAN: an import worked the decision out and no line says it: counted apart, it proves nothing
CREATE VIEW verdicts AS
SELECT
    node,
    seq,
    make_timestamp(ts_ns // 1000) AS ts,
    CASE WHEN recorded IS NOT NULL THEN seq END AS decision_seq,
    kind,
    subject,
    verdict,
    why,
    missing,
    expected,
    recorded,
    nullif(rule, '') AS rule,
    coalesce(inferred, false) AS inferred
FROM stored.verified;
