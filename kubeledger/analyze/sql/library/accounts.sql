-- title: Was every line of the sources accounted for?
-- One row an imported source.
SELECT
    node,
    source_file,
    lines,
    understood,
    noise,
    not_understood,
    records,
    seq
FROM line_accounts
ORDER BY node, seq, source_file;
