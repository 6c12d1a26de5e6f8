"""Load SQL statements from the folders of files that packages bring along.

A file holds the statements of one topic, each under a line ``-- name: x``: ``outbox/claim:x`` is statement ``x`` of
``outbox/claim.sql``. A file that is one statement is named as it is: ``outbox/migrations/0001_create_table.sql``.

Every file is ordinary SQL that runs in psql against the default names. Four things turn it into what is sent:

- Names: default identifiers are replaced by quoted ones, from one map. Values are always bound, never written into
  the text.
- Inheritance: a statement that reads or changes one of the outbox's tables says ONLY. The ``ctid`` by which rows are
  found is unique within one table, and a child table, an archive for example, would be delivered and deleted too. The
  files leave the word out, because sqlfluff does not parse ``FROM ONLY``.
- Variants: a line that ends in ``--? words`` is kept only if all of its words hold. The word ``x`` holds when the tag
  x is on, ``!x`` when it is off, ``x|y`` when one of both is on. A tagged line that is commented out, because it is
  the alternative of another line, is uncommented when it is kept.
- Conditions: ``@outbox/claim:free`` in such a line stands for what the statement of that name selects, with its own
  tagged lines chosen by the same tags. So a condition that many statements share is written once.

The client has one folder, ``CLIENT``; the relay adds its own (``relay.postgres.sql``).
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, LiteralString
from uuid import UUID

from openoutbox.names import BESIDE, DEFAULT_TABLE, OF_A_SCHEMA, Name, TableName, quote_identifier

_NAME: Final = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_HEADER: Final = re.compile(r"\A(--[^\n]*\n)(?:--[^\n]*\n)*")
_TAGGED: Final = re.compile(r"^(?P<text>.*?)\s*--\?\s*(?P<words>.+?)\s*$")
_COMMENTED_OUT: Final = re.compile(r"^(\s*)-- ")
_CONDITION: Final = re.compile(r"@([\w/]+:\w+)")
_SELECTED: Final = re.compile(r"^SELECT\n(.*)\nFROM \w+\Z", re.DOTALL | re.MULTILINE)
_PLAIN_TABLES: Final = ("events", "inbox", "inbox_tries", *BESIDE, *OF_A_SCHEMA)
_READ: Final = re.compile(rf"\b(FROM|JOIN|UPDATE) (?=openoutbox_(?:{'|'.join(_PLAIN_TABLES)})\b(?!\.))")
_NO_NAMES: Final[Mapping[str, Name]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SqlFolder:
    """A folder of SQL files: where it lies, and the package whose ``sql`` it is where that is in an archive."""

    path: Path
    package: str = ""

    def read(self, file: str) -> str | None:
        """The text of a file; None when it is not here.

        A package may be imported from a wheel as it is, as Spark's ``--py-files`` does.
        """
        path = self.path / file
        if path.exists():
            return path.read_text(encoding="utf-8")
        try:
            data = pkgutil.get_data(self.package, f"sql/{file}") if self.package else None
        except OSError:
            return None
        return None if data is None else data.decode()


@dataclass(frozen=True, eq=False)
class SqlLibrary:
    """The statements of one folder or more. No two of them have a file of the same name."""

    folders: tuple[SqlFolder, ...]

    def files(self, folder: str = "") -> list[str]:
        """Every file below ``folder``, for example ``outbox/claim.sql``, in their order."""
        return sorted(
            path.relative_to(root.path).as_posix()
            for root in self.folders
            for path in (root.path / folder).rglob("*.sql")
        )

    def load(self, path: str) -> str:
        """The text of a statement, ``outbox/claim:claim``, or of a whole file, ``outbox/migrations/0001_….sql``.

        Raises KeyError for a name that the file does not have, ValueError for a file that has a name twice.
        """
        file, colon, name = path.partition(":")
        return _statements(self, f"{file}.sql")[name] if colon else _read(self, path)

    def statement_names(self, path: str) -> list[str]:
        """The names of the statements in ``path``, for example ``outbox/claim``, in their order."""
        return list(_statements(self, f"{path}.sql"))

    def variant(self, path: str, tags: frozenset[str] = frozenset()) -> str:
        """The text of one file with the tagged lines that ``tags`` keep; its names are the default ones."""
        text = self.load(path)
        if "--?" not in text:
            return text
        lines = []
        for line in text.splitlines():
            match = _TAGGED.match(line)
            if match is None:
                lines.append(line)
            elif all(_holds(word, tags) for word in match["words"].split()):
                kept = _COMMENTED_OUT.sub(r"\1", match["text"])
                lines.append(_CONDITION.sub(lambda one: self._selected(one[1], tags), kept))
        return "\n".join(lines)

    def _selected(self, path: str, tags: frozenset[str]) -> str:
        """What a statement selects, without comments."""
        lines = [line for line in self.variant(path, tags).splitlines() if not line.lstrip().startswith("--")]
        selected = _SELECTED.search("\n".join(lines))
        if selected is None:
            raise ValueError(f"{path} selects no condition from one table")
        return selected[1].strip()

    def statement(
        self,
        path: str,
        table: TableName | None = None,
        names: Mapping[str, Name] = _NO_NAMES,
        tags: Iterable[str] = (),
    ) -> LiteralString:
        """One file's statement: ``table`` for the default table, ``names`` for other identifiers, as ``tags`` say.

        Of the file's leading comment only the first line is sent: ``pg_stat_activity`` shows what the statement is
        for, and the SQL itself before the text is cut off. A ``%`` in a name is doubled, as in any text that takes
        parameters; ``without_parameters`` undoes that.

        It may pass for a literal: the text comes from a file of this project, and inserted names are quoted.
        """
        replaced = dict(names) if table is None else {DEFAULT_TABLE: table, **names}
        return _statement(self, path, tuple(replaced.items()), frozenset(tags))


@cache
def _read(library: SqlLibrary, file: str) -> str:
    for folder in library.folders:
        if (text := folder.read(file)) is not None:
            return text
    places = " or ".join(str(folder.path) for folder in library.folders)
    raise FileNotFoundError(f"there is no {file} in {places}")


@cache
def _statements(library: SqlLibrary, file: str) -> Mapping[str, str]:
    """The statements of one file by their names, each with its comments and without psql's semicolon at its end.

    Raises ValueError for a name that the file has twice: one of the two would never be sent.
    """
    statements: dict[str, str] = {}
    _, *parts = _NAME.split(_read(library, file))
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        if name in statements:
            raise ValueError(f"sql/{file}: the name {name} stands there twice")
        statements[name] = text.strip().removesuffix(";") + "\n"
    return statements


@lru_cache(maxsize=4096)
def _statement(
    library: SqlLibrary, path: str, names: tuple[tuple[str, Name], ...], tags: frozenset[str]
) -> LiteralString:
    text = _READ.sub(r"\1 ONLY ", _HEADER.sub(r"\1", library.variant(path, tags)))
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


def _holds(word: str, tags: frozenset[str]) -> bool:
    return any(choice[1:] not in tags if choice.startswith("!") else choice in tags for choice in word.split("|"))


def without_parameters(sql: LiteralString) -> LiteralString:
    """A statement for a call without parameters, in which a ``%`` must not be doubled."""
    return sql.replace("%%", "%")


CLIENT: Final = SqlFolder(Path(__file__).resolve().parent / "sql", "openoutbox")
"""What an application sends, and the DDL of the outbox and the inbox."""

_LIBRARY: Final = SqlLibrary((CLIENT,))
load_sql: Final = _LIBRARY.load
sql_files: Final = _LIBRARY.files
statement: Final = _LIBRARY.statement
statement_names: Final = _LIBRARY.statement_names
