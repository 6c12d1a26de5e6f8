"""Variants of statements: every statement is whole as it stands, and no tag is misspelt."""

from __future__ import annotations

import re

import pytest

from relay.deliverylog import DeliveryLogError
from relay.deliverylog.clickhouse.statements import ClickHouseStatements, ttl_days
from relay.postgres.sql import load_sql, sql_files, statement_names, variant

FILES = sql_files("deliverylog")
PATHS = [file.removesuffix(".sql") for file in FILES]
STATEMENTS = [f"{path}:{name}" for path in PATHS for name in statement_names(path)]
KNOWN = re.compile(
    r"!?(sync|tenant_id|tenant|many_tenants|branch|many_values|desc|asc|gte|lte|gt|lt|after|twin|by_time|by_event|one|destination|window|uniform|months|data"
    r"|(branch|filter|by)_(tenant_id|event_id|destination_id|destination_type|topic|status|code|manual|attempt_number)|filter_failed|filter_one_topic)"
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
    statements = ClickHouseStatements("p_").ttl(7, sync=True)
    for table, text in statements:
        assert f'ALTER TABLE "{table}"' in text
        assert "toIntervalDay(7)" in text
        assert ttl_days(f"MergeTree ORDER BY x TTL {text.partition('TTL ')[2].partition(chr(10))[0]}", table) == 7
    assert [table for table, _ in statements] == [
        "p_event_log",
        "p_event_log_attempts",
        "p_event_log_events",
        "p_event_log_quarantine",
    ]


@pytest.mark.parametrize(
    "clause",
    [
        "toDateTime(delivery_time) + toIntervalMonth(3)",
        "toDateTime(delivery_time) + toIntervalWeek(3)",
        "toDateTime(delivery_time) + toIntervalHour(30)",
        "delivery_time + toIntervalDay(30)",
        "toDateTime(delivery_time) + toIntervalDay(30) WHERE status = 'success'",
        "toDateTime(delivery_time) + toIntervalDay(30) TO VOLUME 'cold'",
        "toDateTime(delivery_time) + toIntervalDay(30), toDateTime(event_time) + toIntervalDay(30)",
    ],
)
def test_a_ttl_that_the_log_did_not_write_is_named(clause: str) -> None:
    engine = f"ReplacingMergeTree(version) ORDER BY (tenant_id, time) TTL {clause} SETTINGS index_granularity = 128"
    with pytest.raises(DeliveryLogError, match=re.escape(clause)) as caught:
        ttl_days(engine, "p_event_log")
    assert "table p_event_log" in str(caught.value)


def test_a_table_without_a_ttl_has_none() -> None:
    assert ttl_days("MergeTree ORDER BY quarantined_at SETTINGS index_granularity = 8192", "q") is None
