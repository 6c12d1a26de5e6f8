-- The 64 buckets in which the tenants' partitions are kept, so that adding one touches a 64th of them.
-- Locks: the parents, exclusively, while they are made; there are no tenants yet.
DO $$
BEGIN
    FOR bucket IN 0..63 LOOP
        EXECUTE format(
            'CREATE TABLE IF NOT EXISTS public.event_tenants_%s PARTITION OF public.event_tenants '
            'FOR VALUES WITH (MODULUS 64, REMAINDER %s) PARTITION BY LIST (TenantId)',
            to_char(bucket, 'FM00'), bucket
        );
    END LOOP;
END
$$
