"""The rights that GRANT statements give, which of them a user lacks, and how an error names the missing one.

The statements under ``sql/`` are the one list of rights: what grants a role its rights is what checks them. Every
SchemaError about a missing right gets its GRANT here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from typing import Final, NamedTuple

import psycopg

from relay.core.errors import SchemaError
from relay.postgres.connect import SyncConnection
from relay.postgres.sql import TableName, load_sql, quote_identifier, statement

NO_PRIVILEGE: Final = "42501"
THE_USER: Final = "the relay's user"
"""Who lacks a right of the relay: its connections may be behind a pooler, which has names of its own."""

_NAMED: Final = "GRANT "
_GRANT: Final = re.compile(
    r"GRANT (?P<rights>.+?) ON (?:(?P<kind>SCHEMA|FUNCTION|PROCEDURE|SEQUENCE|DATABASE) )?(?P<objects>.+) TO .+"
)
_COMMENT: Final = re.compile(r"^--.*\n", re.MULTILINE)
_PIECE: Final = re.compile(r'(?:"(?:[^"]|"")*"|\([^)]*\)|[^,])+')
"""One item of a list: a comma in quotes or in parentheses does not end it."""
_COLUMNS: Final = re.compile(r"(?P<privilege>\w+)(?: \((?P<columns>.+)\))?")


class Right(NamedTuple):
    """One privilege on one object, or on one column of a table."""

    privilege: str
    kind: str
    """``table``, ``schema``, ``function``, ``procedure``, ``sequence`` or ``database``, which is the present one."""
    object: str
    """Quoted as in SQL."""
    column: str = ""

    def __str__(self) -> str:
        privilege = f"{self.privilege} ({self.column})" if self.column else self.privilege
        return f"{privilege} on {'' if self.kind == 'table' else f'{self.kind} '}{self.object}"

    def grant(self, user: str) -> str:
        """The statement that gives it to ``user``."""
        rights, _, place = str(self).partition(" on ")
        return f"GRANT {rights} ON {place} TO {quote_identifier(user)}"


class Holding(Enum):
    """Whether a user holds a right."""

    YES = "yes"
    NO = "no"
    NO_OBJECT = "the object does not exist"


def rights_of(grants: Iterable[str]) -> list[Right]:
    """The rights that the statements grant, in their order. Raises ValueError for a statement that is no GRANT."""
    return [right for grant in grants for right in _rights(bare(grant))]


def _rights(grant: str) -> Iterator[Right]:
    match = _GRANT.fullmatch(grant)
    if match is None:
        raise ValueError(f"not a GRANT: {grant}")
    kind = (match["kind"] or "table").lower()
    for item in _items(match["objects"]):
        for piece in _items(match["rights"]):
            listed = _COLUMNS.fullmatch(piece)
            if listed is None:
                raise ValueError(f"not a privilege: {piece}")
            for column in _items(listed["columns"] or "") or [""]:
                # has_column_privilege takes a name as the catalogue has it.
                yield Right(listed["privilege"], kind, item, column if '"' in column else column.lower())


def _items(text: str) -> list[str]:
    return [piece.strip() for piece in _PIECE.findall(text)]


def bare(sql: str) -> str:
    """A statement without its comments, on one line: for an operator to run."""
    return " ".join(_COMMENT.sub("", sql).split()).removesuffix(";")


def holding(connection: SyncConnection, right: Right, role: str | None = None) -> Holding:
    """Whether a role, or else the connection's user, holds ``right``. In autocommit mode. Raises psycopg.Error."""
    kind = "column" if right.column else "function" if right.kind == "procedure" else right.kind
    name, tags = ("relation", (kind,)) if kind in {"table", "column", "sequence"} else (kind, ())
    parameters = {"object": right.object, "privilege": right.privilege, "name": right.column, "role": role}
    try:
        row = connection.execute(statement(f"rights:{name}", tags=tags), parameters).fetchone()
    except psycopg.errors.InsufficientPrivilege:  # on the schema
        return Holding.NO
    except psycopg.errors.UndefinedColumn:
        return Holding.NO_OBJECT
    if row is None or row[0] is None:
        return Holding.NO_OBJECT
    return Holding.YES if row[0] else Holding.NO


def rights_text(file: str, *names: str) -> str:
    """What statements of a ``grants.sql`` grant, as one GRANT lists it, by file and names.

    So the GRANT in an error is a part of what ``relay-cli roles`` grants.
    """
    grants = [_GRANT.fullmatch(bare(load_sql(f"{file}:{name}"))) for name in names]
    return ", ".join(grant["rights"] for grant in grants if grant is not None)


def grant_on(rights: str, table: TableName, user: str) -> str:
    """The statement that gives ``user`` the rights on a table; ``THE_USER`` is not quoted."""
    return f"GRANT {rights} ON {table.quoted} TO {user if user == THE_USER else quote_identifier(user)}"


def granting(rights: str, table: TableName, user: str) -> AbstractContextManager[None]:
    """As ``naming_the_grant``, for rights on a table."""
    return naming_the_grant(f"run as the owner of the table: {grant_on(rights, table, user)}")


def create_in(schema: str, user: str) -> str:
    """The statement that lets ``user`` create tables in a schema."""
    return f"GRANT USAGE, CREATE ON SCHEMA {quote_identifier(schema)} TO {quote_identifier(user)}"


def create_schema_remedy(schema: str, user: str) -> str:
    """What to do where ``user`` may not create a schema or change what is in it."""
    return (
        f"run it as the owner of schema {quote_identifier(schema)}; to create that schema a user needs: "
        f"GRANT CREATE ON DATABASE ... TO {quote_identifier(user)}"
    )


@contextmanager
def naming_the_grant(grant: str) -> Iterator[None]:
    """Add ``grant``, which says what to run, to the message of a SchemaError about a missing right.

    One that names a GRANT already is about another object, such as the schema or the table of an extension.
    """
    try:
        yield
    except SchemaError as error:
        if error.sqlstate != NO_PRIVILEGE or _NAMED in str(error):
            raise
        raise SchemaError(f"{error}; {grant}", error.sqlstate) from error
