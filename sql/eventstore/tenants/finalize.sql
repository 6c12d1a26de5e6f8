-- Completes a detach that was interrupted. Locks: as detach.sql.
ALTER TABLE public.event_tenants_00 DETACH PARTITION public.event_00000000000000000000000000000000 FINALIZE
