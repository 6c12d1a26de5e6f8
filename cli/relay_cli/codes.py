"""The exit codes of every command. Imports nothing, because ``relay_cli.main`` needs one before anything is loaded."""

FAILED = 1
"""The database or the table does not allow it."""
WRONG = 2
"""Wrong usage, or a wrong setting."""
INCOMPLETE = 3
"""What this user may was done, and other roles must do the rest."""
INTERRUPTED = 130
"""After Ctrl-C, as in a shell."""
TERMINATED = 143
"""After SIGTERM, as in a shell."""
