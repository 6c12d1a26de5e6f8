"""The commands of ``relay-cli``: modules, imported only to run a command or to show its help."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.main import get_command

from relay.version import __version__
from relay_cli.groups import HELP, CommandGroup, prepare
from relay_cli.output import say
from relay_cli.shared_options import StorageUrl

COMMANDS: Final = {
    "migrate": "relay_cli.migrate",
    "roles": "relay_cli.roles",
    "check": "relay_cli.check",
    "stats": "relay_cli.stats",
    "causes": "relay_cli.causes",
    "list": "relay_cli.listing",
    "show": "relay_cli.show",
    "replay": "relay_cli.replay",
    "pause": "relay_cli.pause",
    "resume": "relay_cli.resume",
    "fleet": "relay_cli.fleet",
    "prune": "relay_cli.prune",
    "console": "relay_cli.console",
    "route": "relay_cli.route",
    "kafka-setup": "relay_cli.kafka_setup",
}
"""Command to module; the module's ``app`` is a typer app of one command."""

GROUPS: Final = {
    "store": "relay_cli.store",
    "tenant": "relay_cli.tenant",
    "log": "relay_cli.log",
    "inbox": "relay_cli.inbox",
    "spark": "relay_cli.spark",
    "access": "relay_cli.access",
}
"""Group of commands to module, whose ``app`` has the commands: docs/guide/event-store.md, docs/operate/delivery-log.md,
docs/guide/inbox.md, docs/guide/spark.md, docs/operate/console-access.md."""


class _LazyGroup(CommandGroup):
    """Imports the module of a command when it is needed."""

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002 - click's signature
        """Every command's name, in the table's order."""
        return [*COMMANDS, *GROUPS]

    def get_command(self, ctx: object, cmd_name: str) -> Any:  # noqa: ANN401, ARG002 - click's signature
        """The command, or None for a name that is not in the table."""
        path = COMMANDS.get(cmd_name) or GROUPS.get(cmd_name)
        if path is None:
            return None
        command = get_command(import_module(path).app)
        command.name = cmd_name
        prepare(command)
        return command


app = typer.Typer(cls=_LazyGroup, rich_markup_mode=None, pretty_exceptions_enable=False, context_settings=HELP)


def _show_version(requested: bool) -> None:
    if requested:
        say(__version__)
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    storage_url: StorageUrl = None,
    version: Annotated[  # noqa: ARG001 - its callback prints it
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Operate an Open Outbox relay: create its table, inspect, replay and prune its events.

    Example: relay-cli list --status dead
    """
    context.obj = storage_url
