"""``relay-cli spark``: prepare a database for Spark, and run Spark's jobs on this machine."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from relay.core.errors import ConfigError
from relay_cli.log_options import log_url
from relay_cli.options import StorageUrl, Table, read_settings, storage_of

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Prepare a database for Spark, and run Spark's jobs (docs/spark.md).",
)

_PASSED_ON: Final[dict[str, Any]] = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}
"""A job reads its arguments itself."""


class Purpose(StrEnum):
    """What a role does by Spark."""

    WRITE = "write"
    ARCHIVE = "archive"
    REPLAY = "replay"


@app.command("setup")
def setup(
    context: typer.Context,
    role: Annotated[str | None, typer.Option(help="Grant this role what Spark needs, and nothing more.")] = None,
    purpose: Annotated[Purpose, typer.Option("--for", help="What the role is for.")] = Purpose.WRITE,
    schema: Annotated[str, typer.Option(help="Where Spark's ledger and staging tables are.")] = "openoutbox_spark",
    storage_url: StorageUrl = None,
    table: Table = None,
) -> None:
    """Create the schema and the ledgers that Spark's jobs need. Running it again changes nothing.

    Example: relay-cli spark setup --role spark_writer
    """
    _needs_pyspark()
    from relay.spark.setup import setup as set_up

    url, outbox = storage_of(read_settings(context, storage_url, table))
    grants = set_up(url, outbox, role, schema, purpose.value)
    typer.echo(f"schema {schema}: ready")
    for grant in grants:
        typer.echo(grant)


@app.command("ingest", add_help_option=False, context_settings=_PASSED_ON)
def ingest(context: typer.Context) -> None:
    """Write files, a table or a stream into the outbox: relay-cli spark ingest --help."""
    _run(context, "ingest")


@app.command("archive", add_help_option=False, context_settings=_PASSED_ON)
def archive(context: typer.Context) -> None:
    """Move old delivered and dead events to Parquet files: relay-cli spark archive --help."""
    _run(context, "archive")


@app.command("replay", add_help_option=False, context_settings=_PASSED_ON)
def replay(context: typer.Context) -> None:
    """Send events of an archive, or of the table, again: relay-cli spark replay --help."""
    _run(context, "replay", _window)


@app.command("reconcile", add_help_option=False, context_settings=_PASSED_ON)
def reconcile(context: typer.Context) -> None:
    """Compare the outbox or its archive with what has arrived: relay-cli spark reconcile --help."""
    _run(context, "reconcile")


@app.command("report", add_help_option=False, context_settings=_PASSED_ON)
def report(context: typer.Context) -> None:
    """Deliveries, failures, retries, latency by type and hour: relay-cli spark report --help."""
    _run(context, "report")


def _run(
    context: typer.Context,
    name: str,
    more: Callable[[typer.Context, list[str]], list[str]] = lambda _, args: args,
) -> None:
    """Run the job of this name with the user's arguments, which the job parses, ``--help`` too."""
    try:
        job = importlib.import_module(f"relay.spark.jobs.{name}.job")
    except ImportError as error:
        raise _not_installed(error, "spark-report" if name in _WITH_PAGE else "spark") from None
    arguments = [*context.args]
    url, table = None, None
    if not _asks_for_nothing(name, arguments):
        url, table = (log_url(None), None) if name == "report" else _storage(context)
        arguments = more(context, arguments)
    # Spark starts Python by this variable's name for it, and else by "python3", which may be another one.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    raise typer.Exit(job.run(f"relay-cli spark {name}", arguments, url=url, table=table))


_WITH_PAGE: Final = ("reconcile", "report")
"""Jobs that draw a page, with libraries of the extra spark-report."""

_INSTEAD: Final = {
    "ingest": ("--dry-run",),
    "reconcile": ("--archive",),
    "report": ("--archive", "--log-url", "--log-url-file"),
}
"""Options with which a job needs no database of the environment's."""


def _asks_for_nothing(name: str, arguments: list[str]) -> bool:
    """Whether no database is needed, or another one is named."""
    nothing = ("-h", "--help", "--url", "--url-file", *_INSTEAD.get(name, ()))
    return any(each.partition("=")[0] in nothing for each in arguments)


def _window(context: typer.Context, arguments: list[str]) -> list[str]:
    """With the duplicate window of this environment's NATS streams, where it has any and none was given."""
    option = "--nats-duplicate-window"
    if any(each.partition("=")[0] in (option, "--dry-run") for each in arguments):
        return arguments
    from relay_cli.nats_window import duplicate_window

    only = {"PUBLISHER_TYPE", "PUBLISHER_URL", "NATS_CONNECTION_TIMEOUT"}
    window = duplicate_window(read_settings(context, None, only=only))
    return [*arguments, f"{option}={window / 60:.4f}m"] if window else arguments


def _storage(context: typer.Context) -> tuple[str, str]:
    url, table = storage_of(read_settings(context, None))
    return url, str(table)


def _needs_pyspark() -> None:
    try:
        import pyspark  # noqa: F401 - only the extra brings it
    except ImportError as error:
        raise _not_installed(error) from None


def _not_installed(error: ImportError, extra: str = "spark") -> ConfigError:
    return ConfigError(f"Spark's libraries are not installed ({error}); pip install 'openoutbox-relay[{extra}]'")
