"""The fields of a Redis stream entry, without a server."""

from __future__ import annotations

import pytest

from relay.brokers.redis.headers import entry_fields
from tests.brokers.harness.base import make_event


@pytest.mark.parametrize("name", ["id", "payload", "partition_key", "h:id", ""])
def test_a_header_never_replaces_a_field_of_the_event(name: str) -> None:
    event = make_event("s", b"body", key="k", headers=f'{{"{name}": "forged"}}')
    fields = entry_fields(event)
    assert fields[:6] == ["id", event.event_id, "payload", b"body", "partition_key", "k"]
    assert fields[6:] == [f"h:{name}", "forged"]
