"""The pure heart of the relay: events, outcomes, decisions and ports. Imports the standard library only.

- An event's way in types: ``event``, ``places`` (where it goes), ``outcome`` (what a publisher says), ``verdict`` (what
  is written), ``backoff``; ``blame`` tells a row's fault from the database's.
- Ports, which other rooms implement for the engine: ``ports`` (storage, broker), ``proofs``, ``recorder``, ``replays``,
  ``series``, ``telemetry``, ``tracing``; and ``status``, which the engine implements for the server.
- Text from outside: ``headers``, ``formats``, ``limits``, ``allowed``, ``outside``, ``secrets`` (kept out of what is
  shown), ``origins`` (where one is read again), ``durations``.
- What rooms share that do not know one another: ``errors``, ``checkpoint``, ``destination``, ``finding``,
  ``heartbeats``, ``pause``, ``role``, ``upkeep``.
"""
