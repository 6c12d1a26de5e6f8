"""What Spark reads: the outbox, the event store and the delivery log, by binary COPY into Arrow batches.

Everything here reads and nothing writes: a role with SELECT is enough, and no lock is taken that another statement than
DDL would wait for. The readers are made on the driver and pickled; ``read`` runs on the executors.
"""
