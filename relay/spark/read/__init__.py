"""Read the outbox, the event store and the delivery log, by binary COPY into Arrow batches.

Readers need SELECT only, and take no lock that a statement other than DDL waits for. They are created on the driver and
pickled; ``read`` runs on the executors.

``reader`` reads a table, in ``ranges``, with the conditions that ``filters`` pushes and maybe one of ``snapshots``.
``events`` are the store's, for a batch (``eventstore``) and a stream (``eventstream``, ``boundedstream``). ``copyout``
and ``decode`` make Arrow of rows.
"""
