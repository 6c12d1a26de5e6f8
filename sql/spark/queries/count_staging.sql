-- How many rows the attempts that count have staged; compared with what they said they wrote. Reads the whole table.
SELECT COUNT(*) FROM openoutbox_spark.stage_00 WHERE attempt = ANY(%(attempts)s::bigint [])
