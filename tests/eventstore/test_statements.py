"""The statements of the files for other schemas and tenants."""

from __future__ import annotations

import re
import uuid

import pytest

from relay.core.errors import ConfigError
from relay.eventstore.statements import EventStoreStatements
from tests.support.sql_files import sql_statements


@pytest.mark.parametrize("positions", ["gapless", "settled"])
@pytest.mark.parametrize("path", sql_statements("eventstore"))
def test_every_name_is_replaced_and_nothing_else(path: str, positions: str) -> None:
    text = EventStoreStatements("Other Schema").text(path, positions)
    assert not re.search(r"\bpublic\b", text)
    assert text.replace('"Other Schema"', '"public"') == EventStoreStatements().text(path, positions)


def test_a_tenant_takes_the_place_of_the_example() -> None:
    tenant = uuid.UUID("847ed188-9e8b-4d23-8eb4-9126ebd77a4d")
    text = EventStoreStatements().for_tenant("eventstore/tenants:attach", tenant, "07")
    assert '"event_tenants_07" ATTACH PARTITION "public"."event_847ed1889e8b4d238eb49126ebd77a4d"' in text
    assert "FOR VALUES IN ('847ed188-9e8b-4d23-8eb4-9126ebd77a4d')" in text


def test_a_role_is_quoted() -> None:
    assert (
        EventStoreStatements()
        .definition("eventstore/grants_append:events", role='o"app')
        .rstrip()
        .endswith('TO "o""app"')
    )


@pytest.mark.parametrize("schema", ["", "a.b", "a'b", 'a"b', "a\\b", "a%b", "a$b", "ä" * 32])
def test_schemas_that_cannot_be_quoted_both_ways_are_refused(schema: str) -> None:
    with pytest.raises(ConfigError, match="schema"):
        EventStoreStatements(schema)
