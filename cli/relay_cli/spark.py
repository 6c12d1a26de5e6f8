"""``relay-cli spark``: prepare a database for Spark, and run Spark's jobs on this machine."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from relay_cli.groups import command_group
from relay_cli.log_options import log_url
from relay_cli.output import say
from relay_cli.shared_options import StorageUrl, Table, outbox_of, read_settings
from relay_cli.values import choice, choices

if TYPE_CHECKING:
    from relay.spark.jobs.arguments import Arguments, CommandLine

app = command_group("Prepare a database for Spark, and run Spark's jobs (docs/guide/spark.md).")

_ALL_ARGUMENTS: Final[dict[str, Any]] = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}
"""A job parses its arguments, ``--help`` included."""


class Purpose(StrEnum):
    """The jobs and writes that a role may do."""

    WRITE = "write"
    ARCHIVE = "archive"
    REPLAY = "replay"


@app.command("setup")
def setup(
    context: typer.Context,
    role: Annotated[str | None, typer.Option(help="Grant this role the rights for its purpose, and no others.")] = None,
    purpose: Annotated[
        Purpose,
        typer.Option(
            "--for",
            metavar="PURPOSE",
            parser=choice(Purpose),
            autocompletion=choices(Purpose),
            help="The role's purpose: write, archive or replay.",
        ),
    ] = Purpose.WRITE,
    schema: Annotated[str, typer.Option(help="The schema of Spark's ledgers and staging tables.")] = "openoutbox_spark",
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Let the table adopt the runs of its name: it was restored, or renamed.")
    ] = False,
    storage_url: StorageUrl = None,
    table: Table = None,
) -> None:
    """Create the schema and the ledgers that Spark's jobs need. Running it again changes nothing.

    Example: relay-cli spark setup --role spark_writer
    """
    from relay.spark.setup import setup as set_up

    url, outbox = outbox_of(context, storage_url, table)
    done = set_up(url, outbox, role, schema, purpose.value, adopt=adopt)
    say(f"schema {schema}: ready")
    for line in done:
        say(line)


class SparkJob(StrEnum):
    """The jobs."""

    INGEST = "ingest"
    ARCHIVE = "archive"
    REPLAY = "replay"
    RECONCILE = "reconcile"
    REPORT = "report"


_WORK: Final = {
    SparkJob.INGEST: "Write files, a table or a stream into the outbox",
    SparkJob.ARCHIVE: "Move old delivered and dead events to Parquet files",
    SparkJob.REPLAY: "Send events of an archive, or of the table, again",
    SparkJob.RECONCILE: "Compare the outbox or its archive with the events that arrived",
    SparkJob.REPORT: "Report deliveries, failures, retries and latency by type and hour",
}


def _add(job: SparkJob, work: str) -> None:
    """A command that runs the job with its own arguments."""
    help_text = f"{work}: relay-cli spark {job} --help."

    @app.command(job.value, add_help_option=False, context_settings=_ALL_ARGUMENTS, help=help_text)
    def command(context: typer.Context) -> None:
        from relay.spark.jobs.entry import arguments_of

        _run(context, arguments_of(job))


for _each in _WORK.items():
    _add(*_each)


_Job = Annotated[
    SparkJob,
    typer.Argument(metavar="JOB", parser=choice(SparkJob), help="ingest, archive, replay, reconcile or report."),
]
_Master = Annotated[
    str,
    # With its name: typer 0.27 takes the name of a required option from metavar.
    typer.Option("--master", metavar="MASTER", help="spark://host:port, yarn, k8s://https://host:6443 or local[N]."),
]
_Image = Annotated[str | None, typer.Option(help="Kubernetes: an image with Spark, Python and this package.")]
_Namespace = Annotated[str | None, typer.Option(help="Kubernetes: the namespace of the driver.")]
_Environment = Annotated[
    str | None, typer.Option(metavar="FILE", help="A Python environment packed by venv-pack, to travel with the job.")
]
_Packages = Annotated[str | None, typer.Option(metavar="MAVEN,…", help="Packages for Spark to fetch.")]
_Settings = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of Spark; repeatable.")]
_Program = Annotated[
    str | None, typer.Option(metavar="PATH", help="The job's program on the cluster; default: of this package.")
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the spark-submit line; run nothing.")]


@app.command("submit", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def submit(
    context: typer.Context,
    job: _Job,
    master: _Master,
    image: _Image = None,
    namespace: _Namespace = None,
    environment: _Environment = None,
    packages: _Packages = None,
    conf: _Settings = None,
    program: _Program = None,
    dry_run: _DryRun = False,
) -> None:
    """Run a job on a cluster by spark-submit. The job's own arguments come after --.

    Example: relay-cli spark submit archive --master yarn --dry-run -- s3a://lake/outbox --url-file /secrets/url
    """
    import shlex

    from relay.spark.jobs.entry import arguments_of
    from relay.spark.jobs.submit import Submission

    settings = tuple(conf or ())
    submission = Submission(
        arguments_of(job.value), context.args, master, environment, image, namespace, packages, settings, program
    )
    command = submission.command()
    if dry_run:
        say(shlex.join(command))
    else:
        _execute(command)


def _execute(command: list[str]) -> NoReturn:
    """Replace this process by the command. Raises ConfigError for a program that is not on the PATH."""
    import shutil

    from relay.core.errors import ConfigError

    executable = shutil.which(command[0])
    if executable is None:
        raise ConfigError(
            "spark-submit: not on the PATH; add the folder bin of Spark, or of the Python package pyspark"
        )
    os.execv(executable, command)  # noqa: S606 - no shell; signals reach spark-submit, and its exit code the caller


def _run(context: typer.Context, job: type[Arguments]) -> None:
    """Run a job with the user's arguments, and with the environment's values for options that are left out."""
    from relay.spark.jobs.arguments import CommandLine
    from relay.spark.jobs.entry import load

    program = f"relay-cli spark {job.name}"
    # All that can be wrong with the arguments comes before PySpark, which may be missing and takes seconds to import.
    line = CommandLine(job, program, context.args)
    environment = _environment(context, line)
    line.read(environment)
    module = load(job)
    # Spark starts Python workers by the command in this variable, and by "python3", which may be another one, without.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    raise typer.Exit(module.run(program, context.args, **environment))


def _environment(context: typer.Context, line: CommandLine[Any]) -> dict[str, str]:
    """The values of options that are left out and have a variable. Raises ConfigError for a missing variable."""
    values = {}
    for name, variable in line.variables().items():
        if variable == "PUBLISHER_URL":
            if not line.has("dry_run"):  # which inserts nothing, so NATS need not be there
                values[name] = _duplicate_window(context)
        else:
            values[name] = _value(context, variable)
    return values


def _value(context: typer.Context, variable: str) -> str:
    if variable == "DELIVERY_LOG_URL":
        return log_url(None)
    if variable == "DELIVERY_LOG_SCHEMA":
        from relay.settings.locations import log_location

        return log_location({}).schema
    url, table = outbox_of(context, None)
    return url if variable == "STORAGE_URL" else str(table)


def _duplicate_window(context: typer.Context) -> str:
    """The longest duplicate window of this environment's NATS streams; 0 for another broker."""
    from relay.app.duplicates import VARIABLES, duplicate_window

    return f"{duplicate_window(read_settings(context, None, only=VARIABLES)) / 60:.4f}m"
