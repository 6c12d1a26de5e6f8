"""Options that several commands share, and the settings with their default values."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated

import typer

from relay.core.errors import ConfigError

if TYPE_CHECKING:
    from relay.postgres.sql import TableName
    from relay.settings.settings import Settings

StorageUrl = Annotated[
    str | None,
    typer.Option("--storage-url", metavar="URL", help="The database, instead of STORAGE_URL.", show_default=False),
]
Table = Annotated[
    str | None,
    typer.Option(
        "--table",
        metavar="[SCHEMA.]TABLE",
        help="The outbox table, instead of STORAGE_TABLE_NAME.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, without doing it.")]


def read_settings(
    context: typer.Context, storage_url: str | None, table: str | None = None, only: Collection[str] = ()
) -> Settings:
    """The settings a command needs: the storage's, and what ``only`` names.

    ``--storage-url`` wins after the command, then before it, then STORAGE_URL from the environment or ``.env``.
    Raises ConfigError for a wrong or missing value.
    """
    from relay.settings.settings import Settings

    options = {"STORAGE_URL": storage_url or context.obj, "STORAGE_TABLE_NAME": table}
    overrides = {name: value for name, value in options.items() if value}
    settings = Settings.from_process(overrides=overrides, only={*options, *only})
    if settings.storage_url is None:
        raise ConfigError("STORAGE_URL is not set; set it, or pass --storage-url postgres://user@host:5432/database")
    return settings


def storage_of(settings: Settings) -> tuple[str, TableName]:
    """The URL, with its password, and the table."""
    if settings.storage_url is None:
        raise ConfigError("STORAGE_URL is not set")
    return settings.storage_url.get_secret_value(), settings.storage_table_name
