-- Makes the table a partition; its indexes are made by this. Locks: the bucket against other changes of its
-- partitions, and neither against readers nor writers.
ALTER TABLE public.event_tenants_00 ATTACH PARTITION public.event_00000000000000000000000000000000
FOR VALUES IN ('00000000-0000-0000-0000-000000000000')
