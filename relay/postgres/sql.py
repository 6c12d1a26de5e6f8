"""Load the project's SQL from ``sql/``, which is shipped inside the wheel.

A file holds the statements of one topic, each under a line ``-- name: x``: ``outbox/claim:x`` is statement ``x`` of
``sql/outbox/claim.sql``. A file that is one statement is named as it is: ``outbox/migrations/0001_create_table.sql``.

Every file is ordinary SQL that runs in psql against the default names. Two things turn it into what is sent:

- Names: default identifiers are replaced by quoted ones, from one map. Values are always bound, never written into
  the text.
- Variants: a line that ends in ``--? words`` is kept only if all of its words hold. The word ``x`` holds when the tag
  x is on, ``!x`` when it is off, ``x|y`` when one of both is on. A tagged line that is commented out, because it is
  the alternative of another line, is uncommented when it is kept.

Imports the standard library only, because ``relay.client`` imports it.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, LiteralString, TypeAlias
from uuid import UUID

from relay.core.errors import ConfigError

DEFAULT_TABLE: Final = "openoutbox_events"
DEFAULT_INBOX: Final = "openoutbox_inbox"
"""A consumer's table of the events that it has handled."""
DEFAULT_SCHEMA: Final = "public"
"""The schema that the files of the event store are written for."""
DEFAULT_LOG_SCHEMA: Final = "openoutbox_log"
"""The schema that the files of the delivery log are written for."""
LONGEST_IDENTIFIER: Final = 63
"""Bytes. PostgreSQL silently cuts longer names."""
PARTITIONS_AT_ONCE: Final = 20
"""Most partitions that one statement names. Measured: planning time grows faster than the number of partitions."""

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_NAME: Final = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_HEADER: Final = re.compile(r"\A(--[^\n]*\n)(?:--[^\n]*\n)*")
_TAGGED: Final = re.compile(r"^(?P<text>.*?)\s*--\?\s*(?P<words>.+?)\s*$")
_COMMENTED_OUT: Final = re.compile(r"^(\s*)-- ")
_UNQUOTABLE: Final = re.compile(r"""['"\\$%.\x00]""")


@dataclass(frozen=True, slots=True)
class TableName:
    """The outbox table's name, with an optional schema. Names are taken exactly: ``Orders`` is not ``orders``."""

    table: str = DEFAULT_TABLE
    schema: str | None = None

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


Name: TypeAlias = TableName | str | tuple[str, ...] | UUID | int
"""What may take the place of a default identifier: a name, a list of names (of columns), an id, or a number."""

_NO_NAMES: Final[Mapping[str, Name]] = MappingProxyType({})


def is_identifier(name: str) -> bool:
    """Whether PostgreSQL keeps ``name`` as an identifier, once quoted: 1 to 63 bytes and no NUL."""
    return 0 < len(name.encode()) <= LONGEST_IDENTIFIER and "\x00" not in name


def quote_identifier(name: str) -> str:
    """A name as an SQL identifier, whatever characters are in it."""
    return '"' + name.replace('"', '""') + '"'


def checked_schema(schema: str) -> str:
    """The name. Raises ConfigError for one that cannot stand in quotes of both kinds, where statements need it."""
    if not is_identifier(schema) or _UNQUOTABLE.search(schema):
        raise ConfigError(
            f"schema: {schema!r} is not usable; pass a name of 1 to {LONGEST_IDENTIFIER} bytes without quotes, dots, "
            "$, % and backslashes"
        )
    return schema


@cache
def sql_root() -> Path:
    """The folder of the SQL files: inside the installed package, or beside it in a checkout."""
    packaged = _PACKAGE / "sql"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "sql"


@cache
def load_sql(path: str) -> str:
    """The text of a statement, ``outbox/claim:claim``, or of a whole file, ``outbox/migrations/0001_create_table.sql``.

    Raises KeyError for a name that the file does not have, ValueError for a file that has a name twice.
    """
    file, colon, name = path.partition(":")
    return _statements(f"{file}.sql")[name] if colon else _read(path)


@cache
def _statements(path: str) -> Mapping[str, str]:
    """The statements of one file by their names, each with its comments and without psql's semicolon at its end.

    Raises ValueError for a name that the file has twice: one of the two would never be sent.
    """
    statements: dict[str, str] = {}
    _, *parts = _NAME.split(_read(path))
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        if name in statements:
            raise ValueError(f"sql/{path}: the name {name} stands there twice")
        statements[name] = text.strip().removesuffix(";") + "\n"
    return statements


def statement_names(path: str) -> list[str]:
    """The names of the statements in ``path``, for example ``outbox/claim``, in their order."""
    return list(_statements(f"{path}.sql"))


def _read(path: str) -> str:
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
    path: str,
    table: TableName | None = None,
    names: Mapping[str, Name] = _NO_NAMES,
    tags: Iterable[str] = (),
) -> LiteralString:
    """One file's statement: the default table replaced by ``table``, other identifiers by ``names``, as ``tags`` say.

    Of the file's leading comment only the first line is sent: ``pg_stat_activity`` shows what the statement is for,
    and the SQL itself before the text is cut off. A ``%`` in a name is doubled, as in any text that takes parameters;
    ``without_parameters`` undoes that.

    It may pass for a literal: the text comes from a file of this project, and inserted names are quoted.
    """
    replaced = dict(names) if table is None else {DEFAULT_TABLE: table, **names}
    return _statement(path, tuple(replaced.items()), frozenset(tags))


@lru_cache(maxsize=4096)
def _statement(path: str, names: tuple[tuple[str, Name], ...], tags: frozenset[str]) -> LiteralString:
    text = _HEADER.sub(r"\1", variant(path, tags))
    if not names:
        return text
    quoted = {name: _quoted(value).replace("%", "%%") for name, value in names}
    token = re.compile(r"\b(?:" + "|".join(map(re.escape, quoted)) + r")\b")
    return token.sub(lambda match: quoted[match.group()], text)


def _quoted(value: Name) -> str:
    match value:
        case TableName():
            return value.quoted
        case str():
            return quote_identifier(value)
        case UUID() | int():
            return str(value)
        case columns:
            return ", ".join(map(quote_identifier, columns))


def variant(path: str, tags: frozenset[str] = frozenset()) -> str:
    """The text of one file with the tagged lines that ``tags`` keep; its names are the default ones."""
    text = load_sql(path)
    if "--?" not in text:
        return text
    lines = []
    for line in text.splitlines():
        match = _TAGGED.match(line)
        if match is None:
            lines.append(line)
        elif all(_holds(word, tags) for word in match["words"].split()):
            lines.append(_COMMENTED_OUT.sub(r"\1", match["text"]))
    return "\n".join(lines)


def _holds(word: str, tags: frozenset[str]) -> bool:
    return any(choice[1:] not in tags if choice.startswith("!") else choice in tags for choice in word.split("|"))


def without_parameters(sql: LiteralString) -> LiteralString:
    """A statement for a call without parameters, in which a ``%`` must not be doubled."""
    return sql.replace("%%", "%")
