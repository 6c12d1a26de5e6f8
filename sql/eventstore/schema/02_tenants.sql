-- Everything that is not named elsewhere, which is every tenant, goes to one of the buckets below this partition.
-- Without them each provisioning makes every session rebuild its list of all partitions: 70 ms at 10,000 tenants.
-- Locks: the parent, exclusively, while it is made; there are no tenants yet.
CREATE TABLE IF NOT EXISTS public.event_tenants PARTITION OF public.event DEFAULT PARTITION BY HASH (TenantId)
