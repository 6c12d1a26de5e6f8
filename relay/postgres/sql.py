"""The relay's SQL: the files under ``sql/``, which is shipped inside the wheel, and those of ``openoutbox``.

How a file becomes a statement says ``openoutbox.statements``; which names there are, ``openoutbox.names``. Imports the
standard library and ``openoutbox`` only.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from openoutbox.names import (
    DEFAULT_INBOX,
    DEFAULT_TABLE,
    LONGEST_IDENTIFIER,
    Name,
    TableName,
    is_identifier,
    quote_identifier,
)
from openoutbox.statements import CLIENT, SqlFolder, SqlLibrary, without_parameters
from relay.core.errors import ConfigError

__all__ = [
    "DEFAULT_INBOX",
    "DEFAULT_LOG_SCHEMA",
    "DEFAULT_SCHEMA",
    "DEFAULT_TABLE",
    "LONGEST_IDENTIFIER",
    "PARTITIONS_AT_ONCE",
    "Name",
    "TableName",
    "checked_schema",
    "is_identifier",
    "load_sql",
    "one_line",
    "quote_identifier",
    "sql_files",
    "statement",
    "statement_names",
    "variant",
    "without_parameters",
]

DEFAULT_SCHEMA: Final = "public"
"""The schema that the files of the event store are written for."""
DEFAULT_LOG_SCHEMA: Final = "openoutbox_log"
"""The schema that the files of the delivery log are written for."""
PARTITIONS_AT_ONCE: Final = 20
"""Most partitions that one statement names. Measured: planning time grows faster than the number of partitions."""

_UNQUOTABLE: Final = re.compile(r"""['"\\$%.\x00]""")


def _own_folder() -> SqlFolder:
    """Inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    beside = package.parent / "sql"
    return SqlFolder(beside if beside.is_dir() and not (package / "sql").is_dir() else package / "sql", "relay")


_LIBRARY: Final = SqlLibrary((_own_folder(), CLIENT))
load_sql: Final = _LIBRARY.load
sql_files: Final = _LIBRARY.files
statement: Final = _LIBRARY.statement
statement_names: Final = _LIBRARY.statement_names
variant: Final = _LIBRARY.variant


def one_line(name: str, table: TableName) -> str:
    """A statement without parameters, for an operator to run."""
    lines = without_parameters(statement(name, table)).splitlines()
    return " ".join(line.strip() for line in lines if not line.startswith("--"))


def checked_schema(schema: str) -> str:
    """The name. Raises ConfigError for one that cannot stand in quotes of both kinds, where statements need it."""
    if not is_identifier(schema) or _UNQUOTABLE.search(schema):
        raise ConfigError(
            f"schema: {schema!r} is not usable; pass a name of 1 to {LONGEST_IDENTIFIER} bytes without quotes, dots, "
            "$, % and backslashes"
        )
    return schema
