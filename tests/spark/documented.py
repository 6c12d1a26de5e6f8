"""The ``foreachBatch`` of docs/guide/spark.md, run as it stands there: in a driver that a test may kill."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


@dataclass(frozen=True)
class DocumentedStream:
    """The lines of the files in ``folder``, a micro-batch for each file, into the outbox at ``url``."""

    text: str
    """The example, with the test's own checkpoint."""
    url: str
    folder: str
    stopped: Path | None = None
    """After the write of version 1 the stream makes this file and stops, until its process is killed."""


def documented_stream(session: SparkSession, job: DocumentedStream) -> str:
    """Run the stream until no file is left; returns the query's id."""
    lines = session.readStream.option("maxFilesPerTrigger", "1").text(job.folder)
    names: dict[str, Any] = {"events": lines.selectExpr("'t' AS event_type", "value AS payload"), "url": job.url}
    text = job.text
    if job.stopped is not None:
        text = text.replace(".save()", ".save(); after_save(number)")
        names["after_save"] = _stop_after_version_1(job.stopped)
    exec(text, names)
    query = names["query"]
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return str(query.id)


def _stop_after_version_1(mark: Path) -> Callable[[int], None]:
    def after_save(number: int) -> None:
        if number == 1:
            mark.touch()
            threading.Event().wait()

    return after_save
