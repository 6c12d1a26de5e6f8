"""What the commands of ``relay-cli inbox`` share: where the inbox is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from relay_cli.shared_options import outbox_of

if TYPE_CHECKING:
    from relay.postgres.sql import TableName

InboxTable = Annotated[
    str | None,
    typer.Option(
        "--table", metavar="[SCHEMA.]TABLE", help="The inbox, instead of openoutbox_inbox.", show_default=False
    ),
]


Inboxes = Annotated[
    list[str] | None,
    typer.Option(
        "--inbox",
        metavar="[SCHEMA.]TABLE",
        help="An inbox, instead of openoutbox_inbox. Repeatable.",
        show_default=False,
    ),
]
Inbox = Annotated[
    str | None,
    typer.Option(
        "--inbox", metavar="[SCHEMA.]TABLE", help="The inbox, instead of openoutbox_inbox.", show_default=False
    ),
]


def location(context: typer.Context, storage_url: str | None, table: str | None) -> tuple[str, TableName]:
    """The URL of the consumer's database, with its password, and the inbox. Raises ConfigError."""
    from relay.postgres.sql import DEFAULT_INBOX, TableName

    return outbox_of(context, storage_url).url, TableName.parse(table or DEFAULT_INBOX)
