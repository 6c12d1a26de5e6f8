-- Any of the reading statements as a binary stream. Locks: what that statement does.
COPY (SELECT chosen_rows) TO STDOUT WITH (FORMAT "binary")
