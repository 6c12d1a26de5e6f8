-- Lets roles other than the owner see only the rows that a policy names. Locks: the parent, exclusively, for an instant.
ALTER TABLE public.event ENABLE ROW LEVEL SECURITY
