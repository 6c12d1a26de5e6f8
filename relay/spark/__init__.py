"""Outbox, delivery log and event store as data sources of Spark, and the jobs built on them.

``OutboxDataSource`` is the data source (to register it by hand); ``key_id`` is the event id that ``idColumns`` derives;
``read_archive`` reads an archive of the job ``archive``; ``exported_snapshot`` lets several reads see one snapshot;
``run_summary`` is the result of a ``save()``, and ``show_run`` shows it on Spark's pages.

Spark finds the data sources by the modules ``pyspark_openoutbox…`` beside this package and ``lookup``: ``source`` is
``format("openoutbox")``, over ``write`` and ``read``; ``read.deliverylog`` and ``read.eventstore`` are the other two.
``optionparser`` parses the options of all three, ``connection`` connects and waits, ``slots`` bounds the connections of
a write, ``statements`` names those of a write, and ``setup`` makes its schema and grants. ``jobs`` is what spark-submit
runs over them. Executors import only this package, ``relay.core``, ``relay.postgres``, ``openoutbox``, psycopg and what
Spark itself needs for Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relay.spark.jobs.archive.formats import read_archive
    from relay.spark.read.snapshots import exported_snapshot
    from relay.spark.source import OutboxDataSource
    from relay.spark.write.identity import key_id
    from relay.spark.write.observed import show_run
    from relay.spark.write.runs import RunSummary, run_summary

__all__ = ["OutboxDataSource", "RunSummary", "exported_snapshot", "key_id", "read_archive", "run_summary", "show_run"]

_MODULES = {
    "OutboxDataSource": "source",
    "exported_snapshot": "read.snapshots",
    "key_id": "write.identity",
    "read_archive": "jobs.archive.formats",
    "run_summary": "write.runs",
    "show_run": "write.observed",
    "RunSummary": "write.runs",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - each name's own type, as imported above
    """Import a public name when it is used: the jobs' ``--help`` and ``relay-cli spark setup`` need no PySpark."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
