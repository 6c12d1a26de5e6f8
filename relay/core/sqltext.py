"""Where the project's SQL comes from: one statement per file under ``sql/``, shipped inside the wheel.

Every file is ordinary SQL that runs in psql against the default names. The one thing that is swapped is a name:
the default outbox table for the configured one, quoted. Values are always bound, never written into the text.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import LiteralString

from relay.core.errors import ConfigError

DEFAULT_TABLE = "openoutbox_events"

_HERE = Path(__file__).resolve().parents[1]
_LONGEST_IDENTIFIER = 63  # bytes; PostgreSQL silently cuts longer names


@dataclass(frozen=True, slots=True)
class TableName:
    """The outbox table's name, with an optional schema. Names are taken exactly: ``Orders`` is not ``orders``."""

    table: str = DEFAULT_TABLE
    schema: str | None = None

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Read ``table`` or ``schema.table``. Raises ConfigError for anything else."""
        parts = text.strip().split(".")
        bad = [part for part in parts if not part or "\x00" in part or len(part.encode()) > _LONGEST_IDENTIFIER]
        if bad or len(parts) > 2:
            raise ConfigError(
                f"{text!r} is not a table name; write table or schema.table, each of 1 to 63 bytes and without dots"
            )
        return cls(parts[-1], parts[0] if len(parts) == 2 else None)

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}" if self.schema else self.table

    @property
    def quoted(self) -> str:
        """As it stands in SQL text."""
        quoted = quote_identifier(self.table)
        return f"{quote_identifier(self.schema)}.{quoted}" if self.schema else quoted


def quote_identifier(name: str) -> str:
    """A name as an SQL identifier, whatever characters are in it."""
    return '"' + name.replace('"', '""') + '"'


@cache
def sql_root() -> Path:
    """The folder of the SQL files: inside the installed package, or beside it in a checkout."""
    packaged = _HERE / "sql"
    return packaged if packaged.is_dir() else _HERE.parent / "sql"


_HEADER = re.compile(r"\A(--[^\n]*\n)(?:--[^\n]*\n)*")


@cache
def load_sql(path: str) -> str:
    """The text of one file below ``sql/``, for example ``outbox/queries/claim.sql``."""
    file = sql_root() / path
    if not file.exists() and (packed := _from_archive(path)) is not None:
        return packed
    return file.read_text(encoding="utf-8")


def _from_archive(path: str) -> str | None:
    """The file where the package is imported from a wheel as it is, as Spark's ``--py-files`` does."""
    try:
        data = pkgutil.get_data("relay", f"sql/{path}")
    except OSError:
        return None
    return None if data is None else data.decode()


def statement(
    path: str, table: TableName | None = None, others: Mapping[str, TableName] = MappingProxyType({})
) -> LiteralString:
    """One file's statement, with the default table replaced by ``table``, and ``others`` by what they map to.

    Of the file's leading comment only the first line goes along: ``pg_stat_activity`` shows what it is about, and the
    SQL itself before the text is cut off.

    It may pass for a literal: the text comes from a file of this project, and the one inserted name is quoted.
    """
    names = dict(others) if table is None else {DEFAULT_TABLE: table, **others}
    text = _HEADER.sub(r"\1", load_sql(path))
    if not names:
        return text
    quoted = {name: other.quoted.replace("%", "%%") for name, other in names.items()}  # "%" begins a placeholder
    token = re.compile(r"\b(?:" + "|".join(map(re.escape, quoted)) + r")\b")
    return token.sub(lambda match: quoted[match.group()], text)
