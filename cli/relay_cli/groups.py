"""The command groups of ``relay-cli``: how a name becomes a command, and the answer to a name that is none."""

from __future__ import annotations

import difflib
import inspect
import re
from typing import Any, Final

import typer
from typer.core import TyperGroup

from relay_cli.output import say
from relay_cli.values import read_values

HELP: Final = {"help_option_names": ["-h", "--help"]}
FORMER_OPTIONS: Final = {"--log-store-url": "--delivery-log-url"}
"""Options of an earlier release that still work: the former name, and today's."""
_LEAST_LIKE: Final = 0.5  # of difflib: "stat" and "status" are like stats, "start" and "run" are not


class CommandGroup(TyperGroup):
    """Commands that read their values as ``relay_cli.values`` says, and a suggestion for a mistyped name."""

    def __init__(self, **arguments: Any) -> None:  # noqa: ANN401 - typer's own
        super().__init__(**arguments)
        read_values(self)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 - a class that typer does not export
        """The command of this name, ready to run; None for an unknown name."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            prepare(command)
        return command

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - likewise
        """Show the help when no command is named: on standard error, for it is no result."""
        if not args and not ctx.resilient_parsing:
            say(ctx.get_help(), err=True)
            raise typer.Exit(2)
        parsed: list[str] = super().parse_args(ctx, _by_todays_names(args))
        return parsed

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - likewise
        """Find the command, or say which existing names are like it."""
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            names = self.list_commands(ctx)
            near = difflib.get_close_matches(name, names, 2, _LEAST_LIKE)
            suggestion = f"did you mean {' or '.join(near)}?" if near else f"the commands are {', '.join(names)}"
            ctx.fail(f"{ctx.command_path} has no command {name!r}; {suggestion}")
        return super().resolve_command(ctx, args)


def _by_todays_names(args: list[str]) -> list[str]:
    """The arguments with today's name of each former option, which is said."""
    renamed = []
    for arg in args:
        name, *rest = arg.split("=", 1)
        if (today := FORMER_OPTIONS.get(name)) is not None:
            say(f"warning: {name} is now {today}", err=True)
        renamed.append("=".join([today or name, *rest]))
    return renamed


def prepare(command: Any) -> None:  # noqa: ANN401 - a class that typer does not export
    """Show the first sentence whole in lists of commands (45 characters by default), and read values as groups do."""
    text = " ".join(inspect.cleandoc(command.help or "").split())
    command.short_help = re.split(r"(?<=\.) ", text, maxsplit=1)[0]
    read_values(command)


def single_command() -> typer.Typer:
    """A typer app for a module with one command."""
    return typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


def command_group(description: str) -> typer.Typer:
    """A typer app for a module whose commands form a group."""
    return typer.Typer(
        cls=CommandGroup,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings=HELP,
        help=description,
    )
