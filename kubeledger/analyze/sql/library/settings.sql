-- title: Which settings were in force?
-- The last value of each setting, and where it came from.
-- param setting VARCHAR default NULL: part of a setting's name; all of them without it
SELECT
    node,
    setting,
    arg_max(value, seq) AS value,
    arg_max(source, seq) AS source,
    max(ts) AS since
FROM settings
WHERE $setting IS NULL OR contains(lower(setting), lower($setting))
GROUP BY node, setting
ORDER BY node, setting;
