"""The entry of ``relay-cli``. Commands are modules, imported only to run them or to show their help.

Exit codes of every command: 0 done, 1 failed (the database, the table), 2 wrong usage or a wrong setting, 130 when
Ctrl-C ended it. Errors are one message on standard error; results are plain lines on standard output.
"""

from __future__ import annotations

import inspect
import logging
import re
import sys
from importlib import import_module
from typing import Annotated, Final, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from relay.core.errors import ConfigError, OutboxError
from relay.version import __version__
from relay_cli.apps import HELP
from relay_cli.options import StorageUrl
from relay_cli.output import INTERRUPTED

COMMANDS: Final = {
    "migrate": "relay_cli.migrate",
    "check": "relay_cli.check",
    "stats": "relay_cli.stats",
    "list": "relay_cli.listing",
    "show": "relay_cli.show",
    "replay": "relay_cli.replay",
    "prune": "relay_cli.prune",
}
"""Command to module; the module's ``app`` is a typer app of one command."""

GROUPS: Final = {
    "store": "relay_cli.store",
    "tenant": "relay_cli.tenant",
    "log": "relay_cli.log",
    "spark": "relay_cli.spark",
}
"""Group of commands to module, whose ``app`` has the commands: docs/event-store.md, docs/delivery-log.md,
docs/spark.md."""


class _LazyGroup(TyperGroup):
    """Imports the module of a command when it is needed."""

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002 - click's signature
        """Every command's name, in the table's order."""
        return [*COMMANDS, *GROUPS]

    def get_command(self, ctx: object, cmd_name: str) -> TyperCommand | TyperGroup | None:  # noqa: ARG002 - likewise
        """The command, or None for a name that is not in the table."""
        path = COMMANDS.get(cmd_name) or GROUPS.get(cmd_name)
        if path is None:
            return None
        command = cast("TyperCommand | TyperGroup", get_command(import_module(path).app))
        command.name = cmd_name
        _summarize(command)
        return command


def _summarize(command: TyperCommand | TyperGroup) -> None:
    """Show first sentences whole in lists of commands: click cuts them at 45 characters by default."""
    text = " ".join(inspect.cleandoc(command.help or "").split())
    command.short_help = re.split(r"(?<=\.) ", text, maxsplit=1)[0]
    for each in getattr(command, "commands", {}).values():
        _summarize(each)


app = typer.Typer(
    cls=_LazyGroup,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings=HELP,
)


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(__version__)
        raise typer.Exit


@app.callback(no_args_is_help=True)
def root(
    context: typer.Context,
    storage_url: StorageUrl = None,
    version: Annotated[  # noqa: ARG001 - its callback prints it
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Operate an Open Outbox relay: create its table, inspect, replay and prune its events."""
    context.obj = storage_url


def main() -> None:
    """Run the command line; ends the process with the exit code."""
    warnings = _LastWarning(logging.WARNING)
    logging.getLogger().addHandler(warnings)
    try:
        app(prog_name="relay-cli")
    except OutboxError as error:
        _print_error(error, warnings.reason)
        sys.exit(2 if isinstance(error, ConfigError) else 1)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        logging.getLogger().removeHandler(warnings)


class _LastWarning(logging.Handler):
    """Takes what libraries log, which would stand between the lines of an answer, and remembers the last reason."""

    reason = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Remember the error that a connection pool logs while it tries again: in the end it raises a timeout only."""
        if record.name.startswith("psycopg.pool") and isinstance(record.args, tuple) and record.args:
            self.reason = " ".join(str(record.args[-1]).split())


def _print_error(error: OutboxError, reason: str) -> None:
    """Print what failed, why, and what to look at."""
    text = str(error)
    why = f": {reason}" if error.setting and reason and reason not in text else ""
    typer.echo(f"error: {text}{why}", err=True)
    if error.setting:
        examine = "; relay-cli check examines the rest" if error.setting == "STORAGE_URL" else ""
        advice = f"check {error.setting} (host, port, user, password, database) and that the server runs{examine}"
        typer.echo(f"-> {advice}", err=True)
