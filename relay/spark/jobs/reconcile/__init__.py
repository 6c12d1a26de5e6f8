"""The job ``reconcile``: compares the outbox or an archive with what arrived."""
