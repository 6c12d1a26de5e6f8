"""Names of tables and other identifiers: how they are given, and how they stand in SQL text.

For the application and the relay. Raises ConfigError for a name that PostgreSQL would cut or refuse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from openoutbox.errors import ConfigError

DEFAULT_TABLE: Final = "openoutbox_events"
BESIDE: Final = ("relays", "pauses", "series")
"""What extensions put beside each outbox: the roles of these tables, as ``schema.table_name`` takes them."""
OF_A_SCHEMA: Final = ("replays", "changes", "cancelled")
"""What extensions put into a schema, for all of its outboxes: ``openoutbox_`` and one of these."""
DEFAULT_INBOX: Final = "openoutbox_inbox"
"""A consumer's table of the events that it has handled."""
DEFAULT_TRIES: Final = "openoutbox_inbox_tries"
"""A consumer's table of the events that are tried again, and of its dead letters."""
LONGEST_IDENTIFIER: Final = 63
"""Bytes. PostgreSQL silently cuts longer names."""


@dataclass(frozen=True, slots=True)
class TableName:
    """The outbox table's name, with an optional schema. Names are taken exactly: ``Orders`` is not ``orders``."""

    table: str = DEFAULT_TABLE
    schema: str | None = None

    @classmethod
    def of(cls, table: str | TableName) -> TableName:
        """As an argument may have it. Raises ConfigError as ``parse`` does."""
        return table if isinstance(table, TableName) else cls.parse(table)

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Read ``table`` or ``schema.table``. Raises ConfigError for anything else."""
        parts = text.strip().split(".")
        if len(parts) > 2 or not all(map(is_identifier, parts)):
            raise ConfigError(
                f"{text!r} is not a table name; write table or schema.table, each of 1 to {LONGEST_IDENTIFIER} bytes "
                "and without dots"
            )
        return cls(parts[-1], parts[0] if len(parts) == 2 else None)

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}" if self.schema else self.table

    @property
    def quoted(self) -> str:
        """As it stands in SQL text."""
        quoted = quote_identifier(self.table)
        return f"{quote_identifier(self.schema)}.{quoted}" if self.schema else quoted


def tries_of(inbox: TableName) -> TableName:
    """The table of the tries of an inbox. Raises ConfigError for a name that is too long."""
    return TableName.parse(f"{inbox}_tries")


Name: TypeAlias = TableName | str | tuple[str, ...] | UUID | int
"""What may take the place of a default identifier: a name, a list of names (of columns), an id, or a number."""


def is_identifier(name: str) -> bool:
    """Whether PostgreSQL keeps ``name`` as an identifier, once quoted: 1 to 63 bytes and no NUL."""
    return 0 < len(name.encode()) <= LONGEST_IDENTIFIER and "\x00" not in name


def quote_identifier(name: str) -> str:
    """A name as an SQL identifier, whatever characters are in it."""
    return '"' + name.replace('"', '""') + '"'
