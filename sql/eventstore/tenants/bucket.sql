-- The number of the bucket that a tenant belongs to. Locks: nothing.
SELECT TO_CHAR(bucket, 'FM00')
FROM GENERATE_SERIES(0, 63) AS bucket
WHERE SATISFIES_HASH_PARTITION('public.event_tenants'::REGCLASS, 64, bucket, %(tenant)s::UUID)
