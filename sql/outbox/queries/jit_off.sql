-- For the transaction of a claim whose LIMIT the planner does not know and takes for a tenth of all that waits: in order,
-- or behind millions of rows, it looks like a statement that is worth compiling, and compiling takes a hundred times
-- longer than running it. Local to the transaction; touches no table. Parameters: none.
SELECT SET_CONFIG('jit', 'off', TRUE)
