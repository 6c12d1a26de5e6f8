"""The outbox table in PostgreSQL: the storage port of the engine, the schema, and the operations on it.

- The port is ``storage``. It claims (``claiming``, ``ordered``), settles (``settling``), renews and reaps.
- Where a claim begins, so that old rows cost nothing: ``head``, ``floors``, ``left_out``, ``passed_rows``.
- The table: ``schema`` says what it must be, ``migrate`` makes it, ``extensions`` its optional parts.
- One optional table each: ``pauses``, ``relay_row``, ``replays``, ``series``; ``wakeup`` listens.
- ``admin`` is what an operator does, for command line and console.
"""
