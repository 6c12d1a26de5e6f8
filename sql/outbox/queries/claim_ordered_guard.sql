-- For the transaction of a claim in order: its LIMITs are unknown to the planner, which takes it for a statement that
-- is worth compiling, and compiling takes a hundred times longer than running it. Local to the transaction; touches no
-- table. Parameters: none.
SELECT SET_CONFIG('jit', 'off', TRUE)
