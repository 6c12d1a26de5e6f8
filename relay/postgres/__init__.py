"""What every room that talks to PostgreSQL shares: its URL, connections, errors, statements and codecs.

- A connection: ``url``, ``connect`` (deadlines; each transaction is READ COMMITTED), ``deadline_pool`` (many callers),
  ``prepared`` (what is prepared on the server, and when not), ``pipeline``, ``read_ahead``, ``codec``.
- A statement: ``sql`` loads it and quotes names, ``errors`` says what an SQLSTATE means.
- Operators' commands: ``operator_connections``, ``operating``, ``refused`` (rows that a bulk change cannot change).
- The schema: ``migrations`` brings a room's tables to this release, ``migrate`` runs them; ``grants`` and ``roles`` are
  about rights.
- ``horizon``: who keeps vacuum from removing dead rows.
"""
