"""Options that several commands share, and the settings with their default values."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from relay.outbox.admin.causes import CauseMark
    from relay.settings.locations import OutboxLocation
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
Type = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only events of that event type.")]
Key = Annotated[str | None, typer.Option("--key", metavar="KEY", help="Only events of that partition key.")]
OfCause = Annotated[
    str | None,
    typer.Option("--cause", metavar="CAUSE", help="Only events of this cause, as relay-cli causes names it."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, without doing it.")]


def cause_of(text: str | None) -> CauseMark | None:
    """What ``--cause`` names. Raises BadParameter for a text that names none."""
    from relay.outbox.admin.causes import CauseMark

    try:
        return None if text is None else CauseMark.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--cause") from None


def name_and_value(header: str) -> tuple[str, str]:
    """What ``--header`` says. Raises BadParameter for a text without a name."""
    name, separator, value = header.partition("=")
    if not name or not separator:
        raise typer.BadParameter(f"{header!r} is not NAME=VALUE", param_hint="--header")
    return name, value


def outbox_of(context: typer.Context, storage_url: str | None, table: str | None = None) -> OutboxLocation:
    """The database and the table that a command works on.

    ``--storage-url`` wins after the command, then before it, then STORAGE_URL from the environment or ``.env``.
    Raises ConfigError for a wrong or missing value.
    """
    from relay.settings.locations import outbox_location

    return outbox_location(_overrides(context, storage_url, table))


def read_settings(
    context: typer.Context,
    storage_url: str | None,
    table: str | None = None,
    only: Collection[str] = (),
    **options: str | None,
) -> Settings:
    """Likewise with the other variables that ``only`` names, and with ``options`` instead of some of these.

    Costs 100 ms of processor time more.
    """
    from relay.settings.settings import Settings

    overrides = _overrides(context, storage_url, table) | {name: value for name, value in options.items() if value}
    settings = Settings.from_process(overrides=overrides, only={"STORAGE_URL", "STORAGE_TABLE_NAME", *only})
    storage_of(settings)
    return settings


def storage_of(settings: Settings) -> OutboxLocation:
    """The URL, with its password, and the table. Raises ConfigError without a URL."""
    from relay.settings.locations import OutboxLocation

    return OutboxLocation(settings.required("STORAGE_URL"), settings.storage_table_name)


def _overrides(context: typer.Context, storage_url: str | None, table: str | None) -> dict[str, str]:
    options = {"STORAGE_URL": storage_url or context.obj, "STORAGE_TABLE_NAME": table}
    return {name: value for name, value in options.items() if value}
