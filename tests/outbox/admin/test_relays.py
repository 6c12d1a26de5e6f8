"""The list of a table's relays, and what the living ones must have in common."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from relay.core.errors import SchemaError
from relay.outbox.admin.relays import (
    FleetMember,
    RelaySetting,
    RelaySettings,
    compared_settings,
    differences,
    list_relays,
    list_settings,
)
from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.support.fixtures.outbox import Outbox

TABLE = TableName()
NOW = datetime(2030, 1, 1, tzinfo=UTC)
MEMBER = FleetMember(
    "relay-0", uuid4(), "1.0", "host", NOW, NOW, 1.0, True, "active", "", "kafka", "ab12", 180.0, "none", "keep",
    0.0, 0.0, 0, 0, "default", None,
)  # fmt: skip


def test_the_living_relays_must_agree() -> None:
    gone = MEMBER._replace(living=False, destination="cd34")
    assert differences([MEMBER, MEMBER._replace(relay_id="relay-1"), gone]) == []
    other = MEMBER._replace(destination_type="null", lease_timeout=30.0, ordering="key", on_delivered="delete")
    other = other._replace(message_format="cloudevents", route_prefix="shop.", routes="1a2b")
    assert differences([MEMBER, other, gone]) == [
        "the relays differ in destination: kafka ab12 (1), null ab12 (1)",
        "the relays differ in LEASE_TIMEOUT: 3m (1), 30s (1)",
        "the relays differ in ORDERING: none (1), key (1)",
        "the relays differ in ON_DELIVERED: keep (1), delete (1)",
        "the relays differ in MESSAGE_FORMAT: default (1), cloudevents (1)",
        "the relays differ in ROUTE_PREFIX: unset (1), shop. (1)",
        "the relays differ in routes: none (1), digest 1a2b (1)",
    ]


def test_settings_are_compared_over_the_living_relays() -> None:
    def relay(name: str, *, living: bool = True, **values: str) -> RelaySettings:
        settings = {key: RelaySetting(value, value != "default") for key, value in values.items()}
        return RelaySettings(name, "host", "1.0", living, settings)

    relays = [
        relay("a", RELAY_ID="a", BATCH_SIZE="500", ORDERING="default"),
        relay("b", RELAY_ID="b", BATCH_SIZE="default", ORDERING="default"),
        relay("c", RELAY_ID="c", BATCH_SIZE="default", ORDERING="default", NEW="default"),
        relay("gone", living=False, BATCH_SIZE="7"),
    ]
    own, batch, ordering, new = compared_settings(relays)
    assert (own.name, own.differs, len(own.values)) == ("RELAY_ID", False, 3)
    assert batch.name == "BATCH_SIZE"
    assert batch.values == [("default", False, ["b", "c"]), ("500", True, ["a"])]
    assert (batch.differs, batch.changed, ordering.differs, ordering.changed) == (True, True, False, False)
    assert (new.differs, new.values) == (False, [("default", False, ["c"])])
    assert compared_settings([]) == []


@pytest.mark.postgres
def test_without_the_extension_the_message_says_what_to_run(outbox: Outbox) -> None:
    with pytest.raises(SchemaError, match=r"relay-cli migrate --table openoutbox_events --with fleet") as missing:
        list_relays(outbox.relay_url, TABLE)
    assert missing.value.sqlstate == "42P01"
    assert add_extension(outbox.owner_url, TABLE, "fleet")
    assert not add_extension(outbox.owner_url, TABLE, "fleet")
    assert list_relays(outbox.owner_url, TABLE) == []
    assert list_settings(outbox.owner_url, TABLE) == []
