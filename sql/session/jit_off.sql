-- For a transaction whose statements have limits that the planner does not know: it takes each for a tenth of what is
-- there, a statement worth compiling, and compiling takes a hundred times longer than running it. Local to the
-- transaction; touches no table. Parameters: none.
SELECT SET_CONFIG('jit', 'off', TRUE)
