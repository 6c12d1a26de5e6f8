"""docs/reference/sql.md has the tables, columns and functions of a migrated database, and the rights of the roles."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from deploy.reference.pages import renewed
from relay.outbox.extensions import extension_names
from relay.postgres.roles import GROUPS
from tests.cli.running import call_cli
from tests.support.fixtures.outbox import Outbox, give_rights
from tests.support.fixtures.postgres import Database, create_database, drop_database
from tests.support.paths import ROOT

TEXT = (ROOT / "docs/reference/sql.md").read_text(encoding="utf-8")
WRITTEN_BY_APPLICATIONS = {"openoutbox_events", "openoutbox_inbox", "event"}
_CELL = re.compile(r"(?<!\\)\|")
_TABLES = """
SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
AND n.nspname IN ('public', 'openoutbox_log', 'openoutbox_spark')
"""
_COLUMNS = """
SELECT a.attname, replace(format_type(a.atttypid, a.atttypmod), 'timestamp with time zone', 'timestamptz'),
    CASE WHEN a.attidentity = 'a' THEN 'generated'
    ELSE coalesce(regexp_replace(pg_get_expr(d.adbin, d.adrelid), '::[a-z]+$', ''),
        CASE WHEN a.attnotnull THEN 'required' ELSE 'null' END) END
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_FUNCTIONS = """
SELECT format('%%s(%%s)', CASE WHEN n.nspname = 'public' THEN '' ELSE n.nspname || '.' END || p.proname,
    replace(pg_get_function_arguments(p.oid), 'timestamp with time zone', 'timestamptz')),
    replace(pg_get_function_result(p.oid), 'timestamp with time zone', 'timestamptz')
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname IN ('public', 'openoutbox_log') AND p.proname = ANY(%s)
"""


def rows(part: str) -> list[list[str]]:
    """The cells of the rows of the first table in a part of the page, without its head, and without marks of code."""
    lines = re.search(r"^\|.*?(?=\n\n)", part, re.DOTALL | re.MULTILINE)
    cells = [_CELL.split(line.strip("|")) for line in (lines[0] if lines else "").splitlines()[2:]]
    return [[cell.strip().replace("\\|", "|").strip("`") for cell in row] for row in cells]


def section(title: str) -> str:
    """What stands under a heading, up to the next one."""
    return re.split(r"^#+ ", TEXT.split(f"# {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def relations() -> dict[str, str]:
    """The tables that have a heading of their own, each with its section."""
    return {name: section(f"`{name}`") for name in re.findall(r"^### `([\w.]+)`$", TEXT, re.MULTILINE)}


@pytest.fixture(scope="module")
def migrated(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A database with everything that the commands create."""
    database = create_database(postgres)
    outbox = Outbox.create(database)
    extensions = [argument for name in extension_names() for argument in ("--with", name)]
    for command in (
        ["migrate", *extensions],
        ["inbox", "migrate", "--with", "dead-letters"],
        ["log", "migrate", "--delivery-log-url", outbox.owner_url],
        ["store", "migrate", "--schema", "public"],
        ["spark", "setup"],
    ):
        done = call_cli(tmp_path_factory.mktemp("migrated"), *command, STORAGE_URL=outbox.owner_url)
        assert done.returncode == 0, done.stderr
    with database.connect() as connection:
        give_rights(connection)
    yield database
    drop_database(database)


def test_each_column_has_its_type_and_its_default(migrated: Database) -> None:
    """Only the tables that an application inserts into have the column of defaults."""
    described = {name: [tuple(row[:-1]) for row in rows(part)] for name, part in relations().items()}
    assert {name for name, columns in described.items() if len(columns[0]) == 3} == WRITTEN_BY_APPLICATIONS
    assert len(described) >= 5
    for name, columns in described.items():
        shown = [column[: len(columns[0])] for column in migrated.run(_COLUMNS, [name])]
        assert sorted(columns) == sorted(shown), name  # extensions add theirs in any order


def test_every_table_is_named(migrated: Database) -> None:
    tables = {name.removeprefix("public.") for (name,) in migrated.run(_TABLES)}
    assert sorted(name for name in tables if f"`{name}`" not in TEXT) == []


def test_each_function_has_its_arguments_and_its_result(migrated: Database) -> None:
    described = {(signature, result) for signature, result, *_ in rows(section("Functions"))}
    names = [signature.partition("(")[0].rpartition(".")[2] for signature, _ in described]
    assert len(names) > 4
    assert described == set(migrated.run(_FUNCTIONS, [names]))


def test_every_role_has_its_rights() -> None:
    """Run ``python -m deploy.reference`` to write them."""
    assert renewed("docs/reference/sql.md", TEXT) == TEXT
    assert [row[0].strip("`") for row in rows(section("Roles"))] == [group.name for group in GROUPS]


def test_every_extension_is_listed() -> None:
    assert [row[0] for row in rows(section("Extensions"))] == extension_names()
