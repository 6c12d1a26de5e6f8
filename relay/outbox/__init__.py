"""The outbox table in PostgreSQL: the storage port of the engine, the schema, and the operations on it.

The statements are in ``sql/outbox``: one file for claims, one for verdicts, one for leases, and so on. Above each of
them stands what it locks and which index serves it.

- The port is ``storage``. It claims (``claiming``, ``ordered``; ``payloads`` are read after the commit where they are
  large), settles (``settling``), renews (``renewal``) and reaps (``reaping``), each over one of its ``connections``.
  The backlog and what may be slow is read by ``slowreads``.
- Where a claim begins, so that old rows cost nothing: ``head`` (``margin`` behind the present), ``floors`` (of keys),
  ``left_out`` (paused events are, too), ``passed_rows``; ``waiting_rows`` looks for what appears behind it. ``span`` is
  what one claim looks at, ``times_ahead`` for a clock that was set back, ``plan_guard`` for a planner that is wrong.
- The table: ``schema`` says what it must be, ``table_check`` and ``schema_diff`` compare, ``migrate`` makes it (the DDL
  is the client's, ``openoutbox/sql/outbox/migrations``), ``extensions`` its optional parts.
- One optional table each: ``pauses``, ``relay_row``, ``replays``, ``series``; ``wakeup`` listens.
- Watched beside delivery: ``pausewatch``, ``modewatch`` (another relay keeps what this one deletes), ``horizon``
  (vacuum is held up), ``order_sequence``.
- ``admin`` is what an operator does, for command line and console.
"""
