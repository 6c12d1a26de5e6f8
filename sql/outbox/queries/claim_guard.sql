-- For the transaction of a claim, which must walk its index in order whatever the planner believes. Sorting looks cheap
-- to it on a table that was analyzed while nothing waited: it then reads and sorts the whole backlog for every claim. And
-- a LIMIT that it does not know looks like a statement that is worth compiling, where compiling takes a hundred times
-- longer than running it. Local to the transaction; touches no table. Parameters: none.
SELECT
    SET_CONFIG('enable_sort', 'off', TRUE),
    SET_CONFIG('jit', 'off', TRUE)
