"""The statements of the files for other schemas and tenants."""

from __future__ import annotations

import re
import uuid

import pytest

from relay.core.errors import ConfigError
from relay.eventstore.statements import EventStoreStatements
from relay.postgres.sql import load_sql, sql_root

FILES = sorted(str(path.relative_to(sql_root() / "eventstore")) for path in (sql_root() / "eventstore").rglob("*.sql"))


@pytest.mark.parametrize("path", FILES)
def test_every_name_is_replaced_and_nothing_else(path: str) -> None:
    text = EventStoreStatements("Other Schema").text(path)
    assert not re.search(r"\bpublic\b", text)
    assert text.replace('"Other Schema"', '"public"') == EventStoreStatements().text(path)


@pytest.mark.parametrize("path", FILES)
def test_every_file_says_what_it_does(path: str) -> None:
    assert load_sql(f"eventstore/{path}").startswith("-- ")


def test_a_tenant_takes_the_place_of_the_example() -> None:
    tenant = uuid.UUID("847ed188-9e8b-4d23-8eb4-9126ebd77a4d")
    text = EventStoreStatements().for_tenant("tenants/attach.sql", tenant, "07")
    assert '"event_tenants_07" ATTACH PARTITION "public"."event_847ed1889e8b4d238eb49126ebd77a4d"' in text
    assert "FOR VALUES IN ('847ed188-9e8b-4d23-8eb4-9126ebd77a4d')" in text


def test_a_role_is_quoted() -> None:
    assert EventStoreStatements().for_role("isolation/08_grant_event.sql", 'o"app').rstrip().endswith('TO "o""app"')


@pytest.mark.parametrize("schema", ["", "a.b", "a'b", 'a"b', "a\\b", "a%b", "a$b", "ä" * 32])
def test_schemas_that_cannot_be_quoted_both_ways_are_refused(schema: str) -> None:
    with pytest.raises(ConfigError, match="schema"):
        EventStoreStatements(schema)
