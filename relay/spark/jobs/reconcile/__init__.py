"""The job ``reconcile``: compares the outbox or an archive with what arrived.

``fingerprints`` gives both sides one form, ``arrivals`` reads what arrived, ``compare`` has the kinds of findings,
``summaries`` the counts.
"""
