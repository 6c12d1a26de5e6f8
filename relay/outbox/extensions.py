"""The optional parts of the schema under ``sql/outbox/extensions``: made on request, never needed.

Each is a file, or a folder of files that are applied in the order of their names.
"""

from __future__ import annotations

from typing import LiteralString

from relay.core.errors import ConfigError
from relay.outbox.options import MIGRATE
from relay.outbox.schema import default_index_names
from relay.postgres.connect import connect
from relay.postgres.errors import translating
from relay.postgres.sql import Name, TableName, sql_root, statement, without_parameters
from relay.postgres.url import connection_parameters

_FOLDER = "outbox/extensions"

REPLAYS = "openoutbox_replays"
"""The table of ``replay_audit.sql``."""

ORDER_INDEXES = ("order_waiting", "order_dead", "order_keyless")
"""The roles of the indexes of ``key_order``."""


WAKE_SUFFIX = "_wake"
"""What the sequence and the function of ``wake_up.sql`` are called: the table's name and this."""


def extension_names() -> list[str]:
    """What may be asked for, as the command line spells it."""
    paths = (path for path in (sql_root() / _FOLDER).iterdir() if path.is_dir() or path.suffix == ".sql")
    return sorted(path.stem.replace("_", "-") for path in paths)


def replays_of(table: TableName) -> TableName:
    """The record of the replays of an outbox: one for all outboxes of its schema."""
    return TableName(REPLAYS, table.schema)


def extension_sql(name: str, table: TableName) -> list[LiteralString]:
    """The statements of one extension, as psql takes them. Raises ConfigError for a name that there is not."""
    if name not in extension_names():
        raise ConfigError(f"extension {name!r} does not exist; the extensions are {', '.join(extension_names())}")
    place = f"{_FOLDER}/{name.replace('-', '_')}"
    folder = sql_root() / place
    paths = [f"{place}/{file.name}" for file in sorted(folder.glob("*.sql"))] if folder.is_dir() else [f"{place}.sql"]
    names: dict[str, Name] = {REPLAYS: replays_of(table), **default_index_names(table, ORDER_INDEXES)}
    if name == "wake-up":
        wake = TableName.parse(f"{table}{WAKE_SUFFIX}")
        names |= {"openoutbox_wake_slot": wake, "openoutbox_wake_function": wake}
    return [without_parameters(statement(path, table, names)) for path in paths]


def add_extension(url: str, table: TableName, name: str) -> None:
    """Apply one extension. Applying it again does nothing, and goes on where a time before was interrupted."""
    statements = extension_sql(name, table)
    with translating(f"adding {name}"), connect(connection_parameters(url, MIGRATE)) as connection:
        for sql in statements:
            connection.execute(sql)
