-- Takes a partition out of the table without blocking readers or writers: it waits for the transactions that use the
-- bucket now. Not inside a transaction. Locks: the bucket against other changes of its partitions.
ALTER TABLE public.event_tenants_00 DETACH PARTITION public.event_00000000000000000000000000000000 CONCURRENTLY
