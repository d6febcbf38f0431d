-- title: Which settings differ between the nodes of a pool?
-- One row a value that is not the pool's most frequent one, by the last value of each node; nodes without one are left out. A value that is the node's own name is shown as <its name>.
-- param setting VARCHAR default NULL: part of a setting's name; all of them without it
-- param top BIGINT default 20: rows
WITH last AS (
    SELECT node, setting, arg_max(value, seq) AS value
    FROM settings
    WHERE $setting IS NULL OR contains(lower(setting), lower($setting))
    GROUP BY node, setting
),

counted AS (
    SELECT
        n.pool,
        l.setting,
        if(
            l.value::VARCHAR IN (n.name, '"' || n.name || '"'), '<its name>', l.value::VARCHAR
        ) AS value,
        count(*) AS nodes,
        list_sort(list(l.node))[:3] AS first_nodes
    FROM last AS l
    JOIN nodes AS n ON n.node = l.node
    GROUP BY ALL
),

ranked AS (
    SELECT
        *,
        first_value(value) OVER by_count AS usual,
        first_value(nodes) OVER by_count AS nodes_usual,
        row_number() OVER by_count AS place
    FROM counted
    WINDOW by_count AS (PARTITION BY pool, setting ORDER BY nodes DESC, value)
)

SELECT pool, setting, usual, nodes_usual, value AS other, nodes, first_nodes
FROM ranked
WHERE place > 1
ORDER BY nodes DESC, pool, setting, value
LIMIT $top::BIGINT;
