"""``python -m relay_cli.docs``: write docs/reference/cli.md from the commands themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from typer.main import get_command

from relay_cli.app import COMMANDS, app

_HEAD = """\
# The command line

For operators and developers who look a command up.

`relay-cli COMMAND --help` shows the same text. Groups of commands have pages of their own:
[`relay-cli log`](../operate/delivery-log.md), [`inbox`](../guide/inbox.md),
[`store` and `tenant`](../guide/event-store.md), [`spark`](../guide/spark.md),
[`access`](../operate/console-access.md).

An error is on standard error: what failed and why, then lines that begin with `->` and say what to do. Programs read
`--json`, or the plain lines off a terminal. NO_COLOR switches colours off.

A duration or an age is written `500ms`, `90s`, `1m30s`, `24h` or `7d`. `relay-cli --install-completion` lets bash, zsh
or fish complete commands, options and statuses. `python -m relay_cli` is the same program.

Exit codes, where a command does not say otherwise: 0 done, 1 the database, the table or the extension fails, 2 wrong
usage, 130 interrupted.

| option of every command | meaning |
|---|---|
| `--storage-url` URL | The database, instead of STORAGE_URL (also in `.env`); also before the command. Not of route. |
| `--table` [SCHEMA.]TABLE | The outbox table, instead of STORAGE_TABLE_NAME. Not of route. |
| `--json` | Print one JSON object instead of lines. Not of console. |
"""
_TAIL = """\
## What next

- The variables that a command reads: [configuration](configuration.md).
- Find out why an event does not arrive: [troubleshooting](../operate/troubleshooting.md).
"""


_SHARED = frozenset({"--storage-url", "--table", "--json"})
"""The options that the head explains once."""
_USUAL = re.compile(
    r"Exit codes: 0 [^.]*?, 1 the database (or the (table|extension) fails|fails or the table differs), 2 wrong usage"
    r"(, 130 interrupted)?\."
)
"""The exit codes that the head explains once."""


class _Parameter(Protocol):
    """The attributes of an option or argument that the document shows."""

    name: str | None
    opts: list[str]
    secondary_opts: list[str]
    metavar: str | None
    help: str | None
    default: object
    is_flag: bool
    param_type_name: str


def markdown() -> str:
    """The whole document."""
    root: Any = get_command(app)
    parts = [_HEAD]
    for name in COMMANDS:
        command = root.get_command(None, name)
        text = inspect.cleandoc(command.help or "")
        body, _, example = text.rpartition("Example: ")
        parts += [
            f"## relay-cli {name}\n",
            f"{_USUAL.sub('', body).strip()}\n",
            f"```sh\n{example.strip()}\n```\n",
            *_options([parameter for parameter in command.params if not _SHARED.intersection(parameter.opts)]),
        ]
    return "\n".join([*parts, _TAIL])


def _options(parameters: Sequence[_Parameter]) -> Iterator[str]:
    """A table, or nothing for a command without options of its own."""
    lines = ["| option | meaning |", "|---|---|"]
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            lines.append(f"| `{parameter.metavar}` | {_cell(parameter.help)} Required. |")
        elif parameter.name != "help":
            names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
            value = "" if parameter.is_flag else f" {_cell(parameter.metavar)}"
            lines.append(f"| {names}{value} | {_cell(parameter.help)}{_default(parameter)} |")
    if len(lines) > 2:
        yield "\n".join(lines) + "\n"


def _default(parameter: _Parameter) -> str:
    """A sentence, or nothing for an option without one."""
    shown = isinstance(parameter.default, str | int | float) and not parameter.is_flag and parameter.default != ""
    return f" Default: `{parameter.default}`." if shown else ""


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|")


if __name__ == "__main__":
    Path("docs/reference/cli.md").write_text(markdown(), encoding="utf-8")
