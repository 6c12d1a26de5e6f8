"""Spark's way into the outbox and out of it: ``format("openoutbox")`` and the jobs built on it.

``OutboxDataSource`` is the data source (to register it by hand); ``key_id`` is the event id that ``idColumns`` derives;
``read_archive`` reads what the job ``archive`` has written; ``exported_snapshot`` lets several reads see one moment.
Executors import only this package, ``relay.core``, ``relay.client``, psycopg and what Spark itself needs for Arrow.
"""

from relay.spark.jobs.archive.files import read_archive
from relay.spark.read.snapshots import exported_snapshot
from relay.spark.source import OutboxDataSource
from relay.spark.write.identity import key_id

__all__ = ["OutboxDataSource", "exported_snapshot", "key_id", "read_archive"]
