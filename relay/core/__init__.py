"""The pure heart of the relay: events, outcomes, decisions and ports. Imports the standard library only.

- An event's way in types: ``event`` (with a glossary), ``places`` (where it goes), ``outcome`` (what a publisher says;
  which error of a broker is which outcome, its ``errors`` in ``relay.brokers`` says), ``verdict`` (what is written),
  ``backoff``; ``blame`` tells a row's fault from the database's.
- Ports, which other rooms implement for the engine: ``storage`` (the outbox table), ``optional_parts`` (its
  extensions), ``ports`` (a broker), ``proofs`` (exactly once), ``recorder`` (the delivery log), ``telemetry``,
  ``tracing``; and ``status``, which the engine implements for the server.
- Text from outside: ``headers``, ``tracecontext``, ``formats``, ``limits``, ``allowed``, ``outside``, ``json_text``,
  ``secrets`` (kept out of what is shown), ``origins`` (where one is read again), ``durations``, ``patterns``.
- What rooms share that do not know one another: ``errors`` (the one tree, and exit codes), ``checkpoint``,
  ``destination``, ``finding``, ``heartbeats``, ``pause``, ``role``; ``clock`` (of leases, and the database's),
  ``extras``, ``filemark``, ``markers``, ``racing``, ``remembered``, ``tasks``.
"""
