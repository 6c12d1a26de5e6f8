"""The job ``replay``: copies of events from an archive, or from the table, into the outbox.

``steps`` selects the events and resumes a replay, ``copies`` inserts them in the tasks.
"""
