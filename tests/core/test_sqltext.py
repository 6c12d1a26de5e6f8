"""The text of a statement as it is sent."""

from __future__ import annotations

from relay.core.sqltext import TableName, load_sql, statement


def test_a_statement_keeps_one_line_of_its_files_comment() -> None:
    whole, sent = load_sql("outbox/queries/claim.sql"), statement("outbox/queries/claim.sql", TableName())
    first, rest = sent.split("\n", 1)
    assert whole.startswith(first)
    assert first.startswith("-- ")
    assert rest.startswith("WITH due AS (")
    assert "\n-- Locks: " in whole
