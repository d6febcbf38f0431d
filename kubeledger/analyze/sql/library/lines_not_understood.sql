-- title: Which log lines were not understood?
-- One row a source and shape of line, the most frequent first.
SELECT
    node,
    source_file,
    shape,
    sum(count)::BIGINT AS lines,
    min(lines[1]) AS first_line,
    arg_min(example, seq) AS example
FROM not_understood
GROUP BY node, source_file, shape
ORDER BY lines DESC, node, source_file, shape;
