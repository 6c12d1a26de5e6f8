"""``relay-cli access``: make lines of the file that says who may use the console (docs/operate/console-access.md)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from relay_cli.groups import command_group
from relay_cli.output import say
from relay_cli.values import choice, choices

if TYPE_CHECKING:
    from relay.console.access import Identity

app = command_group("Create tokens for the console.")


class ConsoleRole(StrEnum):
    """The roles of the console."""

    READER = "reader"
    OPERATOR = "operator"
    ADMIN = "admin"


Name = Annotated[str, typer.Argument(metavar="NAME", help="Who it is for; the console's audit shows this name.")]
Role = Annotated[
    ConsoleRole,
    typer.Option(
        "--role",
        metavar="ROLE",
        parser=choice(ConsoleRole),
        autocompletion=choices(ConsoleRole),
        help="What it allows: reader, operator or admin.",
    ),
]


@app.callback()
def group() -> None:
    """Create tokens for the console."""  # with one command alone, typer would make it the whole group


@app.command("token")
def token(name: Name, role: Role = ConsoleRole.READER) -> None:
    """Create a token, and the line of CONSOLE_TOKENS_FILE that admits it.

    The line goes to standard output. The token is shown once, on standard error: the line holds its hash alone.

    Example: relay-cli access token nightly-job --role operator >> tokens
    """
    identity = _identity(name, role)
    from relay.console.access.tokens import hash_token, new_token

    made = new_token()
    say(f"token: {made}", err=True)
    say(f"{identity.role} {identity.name} {hash_token(made)}")


def _identity(name: str, role: ConsoleRole) -> Identity:
    """What the line names. Raises ConfigError for a name that a line cannot hold, and without the extra console."""
    from relay.core.errors import ConfigError
    from relay.core.extras import requires

    with requires("console", "relay-cli access"):
        from relay.console.access.access_role import AccessRole, Identity, valid_name

    if not valid_name(name) or len(name.split()) > 1:
        raise ConfigError(f"NAME: {name!r} must be printable, without blanks, at most 200 characters long")
    return Identity(name, AccessRole.parse(role))
