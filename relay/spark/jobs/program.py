"""The jobs as programs: arguments, exit codes, errors in one line, and progress.

Results go to standard output, progress and errors to standard error. Exit codes: 0 done, 1 failed, 2 wrong arguments,
130 interrupted; a job may have more.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from relay.core.errors import ConfigError, OutboxError, error_lines, exit_code
from relay.core.secrets import mask_secrets
from relay.spark.jobs.arguments import CommandLine, Job
from relay.spark.jobs.javaerrors import JAVA_ERRORS, java_message
from relay.spark.jobs.session import active_stages

_PROGRESS_INTERVAL: Final = 10.0  # seconds
_NO_TASK: Final = "no task is active: Spark plans, or the database commits"
_OUTBOX_ERROR: Final = re.compile(r"(?:relay\.core|openoutbox)\.errors\.(\w+): (.*)")
_RPC_ERROR: Final = re.compile(r'RPC that terminated with:\s+status = StatusCode\.(\w+)\s+details = "(.*)"')


def run_job(
    arguments: type[Job], work: Callable[[Job], int], program: str, words: Sequence[str], /, **environment: str
) -> int:
    """Run a job, whose ``work`` returns the exit code; ``environment`` has texts for options that are left out.

    Returns the exit code; an error is printed in one line, and ``program`` is the job's name in messages.
    """
    try:
        return work(CommandLine(arguments, program, words).read(environment))
    except OutboxError as error:
        return _print_error("\n-> ".join(error_lines(error)), exit_code(error))
    except PySparkException as error:
        return _print_error(*_cause(error))
    except JAVA_ERRORS as error:  # errors without a class in PySpark, such as a broker that does not answer
        return _print_error(java_message(error), 1)
    except KeyboardInterrupt:
        return _print_error("interrupted", 130)


@contextmanager
def report_progress(job: str, state: Callable[[], str]) -> Iterator[None]:
    """Print a line of progress every ten seconds while the block runs."""
    finished = threading.Event()

    def report() -> None:
        while not finished.wait(_PROGRESS_INTERVAL):
            sys.stderr.write(f"{job}: {state() or _NO_TASK}\n")

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


def task_progress(session: SparkSession) -> str:
    """How many tasks of each active stage are done."""
    stages = active_stages(session)
    return ", ".join(f"stage {stage}: {done} of {tasks} tasks done" for stage, done, tasks in stages)


def print_result(line: str) -> None:
    """Print a line of the result."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def print_summary(summary: Mapping[str, object], lines: Iterable[str], *, as_json: bool) -> None:
    """Print the result of a job: as one JSON object for programs, or as lines."""
    for line in [json.dumps(summary)] if as_json else lines:
        print_result(line)


def _print_error(message: str, code: int) -> int:
    sys.stderr.write(f"error: {mask_secrets(message)}\n")
    return code


def _cause(error: PySparkException) -> tuple[str, int]:
    """The message and exit code of this package's error inside Spark's; of Spark's own where there is none inside."""
    message = str(error)
    if match := _OUTBOX_ERROR.search(message):
        return match[2], 2 if match[1] == ConfigError.__name__ else 1
    if match := _RPC_ERROR.search(message):
        return f"the Spark Connect server does not answer: {match[2]} ({match[1]})", 1
    return message.partition("\n")[0], 1
