"""Variants of statements: every statement is whole as it stands, and no tag is misspelt."""

from __future__ import annotations

import re

import pytest

from relay.deliverylog.clickhouse.statements import ClickHouseStatements
from relay.postgres.sql import load_sql, sql_root, statement_names, variant

FILES = sorted((sql_root() / "deliverylog").rglob("*.sql"))
PATHS = [str(file.relative_to(sql_root()).with_suffix("")) for file in FILES]
STATEMENTS = [f"{path}:{name}" for path in PATHS for name in statement_names(path)]
KNOWN = re.compile(
    r"!?(tenant_id|tenant|many_tenants|branch|many_values|desc|asc|gte|lte|gt|lt|after|twin|by_time|by_event|one|destination|window|uniform|months|data"
    r"|(branch|filter|by)_(tenant_id|event_id|destination_id|destination_type|topic|status|code|manual|attempt_number))"
)


@pytest.mark.parametrize("path", PATHS)
def test_every_file_names_its_statements_and_psql_can_tell_them_apart(path: str) -> None:
    text = load_sql(f"{path}.sql")
    assert re.search(r"^-- name: \w+$", text, re.MULTILINE)
    assert len(re.findall(r";$", re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL), re.MULTILINE)) == len(
        statement_names(path)
    )


@pytest.mark.parametrize("path", STATEMENTS)
def test_every_statement_says_what_it_does_and_marks_lines_with_known_words(path: str) -> None:
    text = load_sql(path)
    assert text.startswith("-- ")
    assert ";" not in re.sub(r"--.*|\$\$.*\$\$", "", text, flags=re.DOTALL if "$$" in text else 0)
    for words in re.findall(r"--\? (.*)", text):
        for word in re.split(r"[ |]+", words.strip()):
            assert KNOWN.fullmatch(word), word


def test_lines_are_chosen_by_their_words() -> None:
    path = "deliverylog/postgres/list:events"
    plain = variant(path, frozenset({"desc"}))
    assert "ORDER BY e.time DESC, e.id DESC, e.tenant_id DESC" in plain
    assert "unnest" not in plain
    assert "--?" not in plain
    turned = variant(path, frozenset({"asc", "after", "twin", "tenant_id"}))
    assert "ORDER BY e.time, e.id, e.tenant_id" in turned
    assert "AND (e.time, e.id, e.tenant_id) >" in turned
    assert "DESC" not in turned.split("SELECT", 1)[1]


def test_the_retention_is_set_for_every_table() -> None:
    statements = ClickHouseStatements("p_").ttl(7)
    assert all("toIntervalDay(7)" in text for text in statements)
    tables = [re.findall(r'ALTER TABLE "(\w+)"', text) for text in statements]
    assert tables == [["p_event_log"], ["p_event_log_attempts"], ["p_event_log_events"], ["p_event_log_quarantine"]]
