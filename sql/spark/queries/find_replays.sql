-- Whether the record of replays is there. Parameters: replays, its quoted name. Catalog only, locks nothing.
SELECT TO_REGCLASS(%(replays)s::text) IS NOT NULL
