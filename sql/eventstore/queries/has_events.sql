-- Whether a tenant has any event. Index: the partition's primary key.
SELECT EXISTS (SELECT 1 FROM public.event WHERE TenantId = %(tenant)s::UUID)
