-- Whether the ledger is there. Parameters: runs, its quoted name. Catalog only, locks nothing.
SELECT TO_REGCLASS(%(runs)s::text) IS NOT NULL
