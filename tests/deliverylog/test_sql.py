"""Variants of statements: every file is whole as it stands, and no tag is misspelt."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from relay.postgres.sql import sql_root, variant

FILES = sorted((sql_root() / "deliverylog").rglob("*.sql"))
KNOWN = re.compile(
    r"!?(tenant_id|tenant|many_tenants|branch|many_values|desc|asc|gte|lte|gt|lt|after|twin|by_time|by_event|one|destination|window|uniform|months"
    r"|(branch|filter|by)_(tenant_id|event_id|destination_id|destination_type|topic|status|code|manual|attempt_number))"
)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(sql_root())))
def test_every_file_says_what_it_does_and_marks_lines_with_known_words(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.startswith("-- ")
    assert ";" not in re.sub(r"--.*|\$\$.*\$\$", "", text, flags=re.DOTALL if "$$" in text else 0)
    for words in re.findall(r"--\? (.*)", text):
        for word in re.split(r"[ |]+", words.strip()):
            assert KNOWN.fullmatch(word), word


def test_lines_are_chosen_by_their_words() -> None:
    path = "deliverylog/postgres/list_events.sql"
    plain = variant(path, frozenset({"desc"}))
    assert "ORDER BY e.time DESC, e.id DESC, e.tenant_id DESC" in plain
    assert "unnest" not in plain
    assert "--?" not in plain
    turned = variant(path, frozenset({"asc", "after", "twin", "tenant_id"}))
    assert "ORDER BY e.time, e.id, e.tenant_id" in turned
    assert "AND (e.time, e.id, e.tenant_id) >" in turned
    assert "DESC" not in turned.split("SELECT", 1)[1]
