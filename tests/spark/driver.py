"""A Spark driver as a process of its own: ``Driver`` runs functions there, and can be killed.

The process reads pickled calls from its standard input and writes pickled replies to its standard output; each call
runs in a thread, so that several jobs can be under way when the driver is killed. What Spark prints goes to a log.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import runpy
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Concatenate, Final, ParamSpec, Self, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from relay.spark.jobs.session import is_connect
from tests.spark.faults import FaultySource
from tests.support.paths import ROOT
from tests.support.servers.spark import environment, lean_session
from tests.support.servers.spark_python import lean_python

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE: Final = 400.0
"""Seconds for a job: on a busy machine it takes minutes to begin."""

_FINISHED: Final = "spark.speculation.quantile"
SPECULATION: Final[Mapping[str, str]] = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.minTaskRuntime": "200ms",
    _FINISHED: "1.0",
}
"""Second attempts beside the first for jobs that ask for them by ``Job.speculative``, else when all tasks are done."""


class DriverFailed(Exception):
    """A call raised an exception, or the driver ended before it replied."""


@dataclass(frozen=True)
class Job:
    """One write. Rows have a ``number``; with a ``folder`` it is a stream of the files in it."""

    options: dict[str, str]
    format: str = "openoutbox"
    rows: int = 0
    partitions: int = 2
    body: str = "struct(number, repeat('x', 200) AS filler)"
    """The SQL expression of the payload; large enough for 500 rows of a partition to be staged."""
    group: str | None = None
    """The name by which ``cancel`` knows the job."""
    folder: str | None = None
    columns: str = "number long"
    """The columns of the folder's files; the payload is a struct of them."""
    checkpoint: str | None = None
    speculative: bool = False


@dataclass(frozen=True)
class Printed:
    """What a program printed, and its exit code."""

    code: int
    out: str
    err: str


class Driver:
    """A process with a session. ``call`` may be used again before an earlier call has ended."""

    def __init__(self, master: str, log: Path, settings: Mapping[str, str] | None = None) -> None:
        """Start it; the first call waits until it is ready."""
        self._log = log
        conf = {**lean_session(), **(settings or {})}
        # Spark Connect's client needs more than a cluster.
        python = sys.executable if master.startswith("sc://") else str(lean_python())
        with log.open("wb") as handle:
            self._process = subprocess.Popen(
                [python, "-m", "tests.spark.driver", master, *(f"{name}={conf[name]}" for name in conf)],
                env={**environment(), "PYSPARK_PYTHON": python},
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=handle,
                start_new_session=True,
            )
        self._calls: dict[int, Future[Any]] = {}
        self._ended = False
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def call(self, function: Callable[Concatenate[SparkSession, P], T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run ``function(session, …)`` in the driver. The future raises DriverFailed when it or the driver fails."""
        future: Future[T] = Future()
        with self._lock:
            number = len(self._calls)
            self._calls[number] = future
        with contextlib.suppress(BrokenPipeError):
            assert self._process.stdin is not None
            self._process.stdin.write(pickle.dumps((number, function, args, kwargs)))
            self._process.stdin.flush()
        if self._ended:
            self._fail(future)
        return future

    def run(self, function: Callable[Concatenate[SparkSession, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``function(session, …)`` in the driver and wait for what it returns."""
        return self.call(function, *args, **kwargs).result(PATIENCE)

    def kill(self) -> None:
        """Kill the driver's JVM at once, then the Python process beside it."""
        os.kill(self.run(_jvm), signal.SIGKILL)
        self._process.kill()
        self._end()

    def close(self) -> None:
        """Let it stop its session and end."""
        if self._process.poll() is None and self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
        self._end()

    def _end(self) -> None:
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(EOFError, pickle.UnpicklingError):
            while True:
                number, result, error = pickle.load(self._process.stdout)
                if error is None:
                    self._calls[number].set_result(result)
                else:
                    self._calls[number].set_exception(DriverFailed(error))
        self._ended = True
        for future in list(self._calls.values()):
            self._fail(future)

    def _fail(self, future: Future[Any]) -> None:
        with self._lock:
            if not future.done():
                future.set_exception(DriverFailed(f"the driver ended: {self._log.read_text(errors='replace')[-4000:]}"))


def write(session: SparkSession, job: Job) -> None:
    """Write the job's rows."""
    numbers = session.range(0, job.rows, 1, job.partitions).withColumnRenamed("id", "number")
    frame = numbers.select(f.lit("orders.created").alias("event_type"), f.expr(job.body).alias("payload"), "number")
    frame = frame if "idColumns" in job.options else frame.drop("number")
    if job.group is not None:
        session.sparkContext.setJobGroup(job.group, job.group, interruptOnCancel=True)
    with _second_attempts(session, allowed=job.speculative):
        frame.write.format(job.format).mode("append").options(**job.options).save()


def stream(session: SparkSession, job: Job) -> None:
    """Write the files in the job's folder, one micro-batch each, until none is left."""
    source = session.readStream.schema(job.columns).option("maxFilesPerTrigger", "1").json(str(job.folder))
    events = source.select(f.lit("orders.created").alias("event_type"), f.struct("*").alias("payload"))
    writer = events.writeStream.format(job.format).options(**job.options)
    query = writer.option("checkpointLocation", str(job.checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()


def submit(session: SparkSession, name: str, *arguments: str) -> Printed:
    """Run the program ``deploy/spark/NAME.py`` as spark-submit does, in this session. One at a time."""
    before, sys.argv = sys.argv, [f"{name}.py", *arguments]
    try:
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            runpy.run_path(str(ROOT / "deploy" / "spark" / f"{name}.py"), run_name="__main__")
    except SystemExit as ended:
        return Printed(int(ended.code or 0), out.getvalue(), err.getvalue())
    finally:
        sys.argv = before
    raise AssertionError(f"{name}.py did not end with an exit code")


def cancel(session: SparkSession, group: str) -> None:
    """Cancel the jobs of a group, as Spark's pages and notebooks do."""
    session.sparkContext.cancelJobGroup(group)


@contextlib.contextmanager
def _second_attempts(session: SparkSession, *, allowed: bool) -> Iterator[None]:
    """Lower, for stages that begin in the block, the share of tasks that must be done before others are repeated."""
    conf = session.sparkContext._jsc.sc().conf()
    if not allowed:
        yield
        return
    before = conf.get(_FINISHED)
    conf.set(_FINISHED, "0.25")
    yield
    conf.set(_FINISHED, before)


def _jvm(session: SparkSession) -> int:
    jvm: Any = session.sparkContext._jvm
    return int(jvm.java.lang.ProcessHandle.current().pid())


def _answer(session: SparkSession, replies: IO[bytes], lock: threading.Lock, call: tuple[Any, ...]) -> None:
    number, function, args, kwargs = call
    reply: tuple[int, Any, str | None]
    if not is_connect(session):
        # Spark looks for data sources in the session that is the thread's active one, which a new thread has not.
        session._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)
    try:
        reply = (number, function(session, *args, **kwargs), None)
    except BaseException:  # noqa: BLE001 - the test sees whatever happened
        reply = (number, None, traceback.format_exc())
    with lock:
        replies.write(pickle.dumps(reply))
        replies.flush()


def main() -> None:
    """Answer calls until the input ends."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    builder = SparkSession.Builder().appName("driver")
    builder = builder.remote(sys.argv[1]) if sys.argv[1].startswith("sc://") else builder.master(sys.argv[1])
    for setting in sys.argv[2:]:
        name, _, value = setting.partition("=")
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.dataSource.register(FaultySource)
    lock = threading.Lock()
    with contextlib.suppress(EOFError):
        while True:
            call = pickle.load(sys.stdin.buffer)
            threading.Thread(target=_answer, args=(session, replies, lock, call), daemon=True).start()
    session.stop()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # the JVM is stopped; threads that wait for it need not be
