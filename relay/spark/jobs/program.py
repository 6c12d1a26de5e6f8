"""What the jobs have in common as programs: exit codes, errors in one line, progress, and where a secret comes from.

Results go to standard output, progress and errors to standard error. Exit codes: 0 done, 1 failed, 2 wrong arguments,
130 interrupted; a job that has more to tell says so itself.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from relay.core.errors import ConfigError, OutboxError

_REPORT_EVERY: Final = 10.0  # seconds
_OURS: Final = re.compile(r"relay\.core\.errors\.(\w+): (.*)")


def guarded(work: Callable[[], int]) -> int:
    """Call ``work`` and return its exit code, or that of its error, which is written in one line."""
    try:
        return work()
    except OutboxError as error:
        return _told(str(error), 2 if isinstance(error, ConfigError) else 1)
    except PySparkException as error:
        return _told(*_cause(error))
    except Py4JJavaError as error:  # what PySpark has no class of its own for, such as a broker that does not answer
        return _told(str(error.java_exception.toString()).partition("\n")[0], 1)
    except KeyboardInterrupt:
        return _told("interrupted", 130)


def started(name: str, settings: Iterable[tuple[str, str]] = ()) -> SparkSession:
    """The session, made with these settings where there is none yet; conditions may go down to PostgreSQL."""
    builder = SparkSession.Builder().appName(f"openoutbox-{name}")
    for setting, value in settings:
        builder = builder.config(setting, value)
    session = builder.getOrCreate()
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    return session


@contextmanager
def reporting(job: str, state: Callable[[], str]) -> Iterator[None]:
    """A line of progress every ten seconds while the block runs."""
    over = threading.Event()

    def report() -> None:
        while not over.wait(_REPORT_EVERY):
            line = state()
            if line:
                sys.stderr.write(f"{job}: {line}\n")

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def tasks(session: SparkSession) -> str:
    """How far the stages at work are."""
    tracker = session.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return ", ".join(
        f"stage {stage.stageId}: {stage.numCompletedTasks} of {stage.numTasks} tasks done" for stage in stages if stage
    )


def tell(line: str) -> None:
    """A line of the result."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def secret(option: str, file: str | None, given: str | None) -> str | None:
    """What ``file`` holds, if it is named, else what was given. Raises ConfigError for a file that cannot be read."""
    if file is None:
        return str(given) if given else None
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(f"{option}: {file}: {error.strerror}") from None


def _told(message: str, code: int) -> int:
    sys.stderr.write(f"error: {message}\n")
    return code


def _cause(error: PySparkException) -> tuple[str, int]:
    """Our own error inside Spark's, where there is one: its text, without the tracebacks, and the exit code."""
    ours = _OURS.search(str(error))
    if ours is None:
        return str(error).partition("\n")[0], 1
    return ours[2], 2 if ours[1] == ConfigError.__name__ else 1
