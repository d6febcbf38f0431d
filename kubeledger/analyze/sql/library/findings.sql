-- title: What is wrong with the sources?
-- Truncated files, wrong checksums, clocks that went back, guesses.
SELECT
    node,
    ts,
    finding,
    source_file,
    message,
    seq
FROM findings
ORDER BY node, seq;
