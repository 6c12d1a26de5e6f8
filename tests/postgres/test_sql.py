"""How a file under ``sql/`` becomes the statement that is sent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from openoutbox.statements import SqlFolder, SqlLibrary
from relay.core.errors import ConfigError
from relay.postgres.sql import (
    LONGEST_IDENTIFIER,
    TableName,
    checked_schema,
    is_identifier,
    load_sql,
    statement,
    variant,
    without_parameters,
)

TENANT = UUID("847ed188-9e8b-4d23-8eb4-9126ebd77a4d")


def test_a_statement_keeps_one_line_of_its_files_comment() -> None:
    whole, sent = load_sql("outbox/claim:claim"), statement("outbox/claim:claim", TableName())
    first, rest = sent.split("\n", 1)
    assert whole.startswith(first)
    assert first.startswith("-- ")
    assert rest.startswith("WITH chosen AS (")
    assert "\n-- Locks: " in whole


def test_names_are_quoted_and_a_percent_sign_is_doubled_for_parameters() -> None:
    path = "spark/staging:drop_staging"
    sent = statement(path, names={"openoutbox_spark": 'a"b', "stage_00": "100%"})
    assert sent.endswith('DROP TABLE IF EXISTS "a""b"."100%%"\n')
    assert without_parameters(sent).endswith('"a""b"."100%"\n')


def test_only_whole_identifiers_are_replaced() -> None:
    sent = statement("spark/direct:copy_repeat", names={"openoutbox_spark": "other"})
    assert "pg_temp.openoutbox_spark_repeat" in sent


def test_a_name_may_be_a_table_a_list_of_columns_or_an_id() -> None:
    columns = statement("spark/read:read_events", TableName("t", "s"), {"chosen_columns": ("a", 'b"')})
    assert 'SELECT "a", "b"""' in columns
    assert '"s"."t"' in columns
    names = {"00000000-0000-0000-0000-000000000000": TENANT}
    assert f"('{TENANT}')" in statement("eventstore/tenants:attach", names=names)


def test_tags_choose_lines() -> None:
    path = "spark/staging:insert_staging"
    plain, known = statement(path), statement(path, tags=["known"])
    assert plain != known
    assert "--?" not in plain + known
    assert "--?" not in variant(path)


def test_a_condition_that_statements_share_is_written_once() -> None:
    plain, told = (statement("outbox/claim:first_due", tags=tags) for tags in ((), ("in_part",)))
    assert "@" not in plain + told
    assert "AND (acknowledged_by IS NULL OR event_type NOT LIKE ALL(" in told
    assert "acknowledged_by" not in plain


def test_a_condition_is_all_that_its_statement_selects(tmp_path: Path) -> None:
    (tmp_path / "f.sql").write_text(
        "-- name: a\nSELECT TRUE\n-- AND @f:b --? x\n;\n-- name: b\n-- Why.\nSELECT\n    (1 = 1)\nFROM t;\n"
        "-- name: c\nSELECT TRUE\n-- AND @f:a --? x\n"
    )
    library = SqlLibrary((SqlFolder(tmp_path),))
    assert library.statement("f:a", tags=["x"]).splitlines()[:2] == ["SELECT TRUE", "AND (1 = 1)"]
    assert library.statement("f:a") == "SELECT TRUE\n"
    with pytest.raises(ValueError, match="f:a selects no condition"):
        library.statement("f:c", tags=["x"])


@pytest.mark.parametrize("name", ["a", "a b", "\N{SNOWMAN}" * 21, "x" * LONGEST_IDENTIFIER])
def test_what_postgresql_keeps_is_an_identifier(name: str) -> None:
    assert is_identifier(name)
    assert TableName.parse(f"{name}.{name}") == TableName(name, name)


@pytest.mark.parametrize("name", ["", "a\x00b", "\N{SNOWMAN}" * 22, "x" * (LONGEST_IDENTIFIER + 1)])
def test_what_postgresql_cuts_or_refuses_is_none(name: str) -> None:
    assert not is_identifier(name)
    with pytest.raises(ConfigError, match="1 to 63 bytes"):
        TableName.parse(f"schema.{name}")
    with pytest.raises(ConfigError, match="1 to 63 bytes"):
        checked_schema(name)


def test_the_client_imports_the_standard_library_only() -> None:
    program = (
        "import sys; before = set(sys.modules); import openoutbox, openoutbox.inbox; "
        "roots = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(roots - sys.stdlib_module_names - {'openoutbox'})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "set()"
