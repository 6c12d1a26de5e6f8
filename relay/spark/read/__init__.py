"""Read the outbox, the event store and the delivery log, by binary COPY into Arrow batches.

Readers need SELECT only, and take no lock that a statement other than DDL waits for. They are created on the driver and
pickled; ``read`` runs on the executors.

``fields`` has the columns of all formats, ``read_options`` their options. ``reader`` checks and reads a table, the
outbox or the delivery log (``deliverylog``): in ``ranges``, with the conditions that ``filters`` pushes and maybe one
of ``snapshots``, by ``statements``. ``events`` reads the event store and notices a restored one, for a batch
(``eventstore``) and a stream (``eventstream``; ``boundedstream`` from Spark 4.2 on). ``copyout`` and ``decode`` make
Arrow of rows.
"""
