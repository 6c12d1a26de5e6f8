-- Sees the table as another transaction's snapshot does; before anything else in the transaction. Locks nothing, but
-- keeps vacuum from removing what that snapshot sees.
SET TRANSACTION SNAPSHOT %(snapshot)s
