"""Why an event is not delivered, read from a real outbox with its extensions, and without."""

from __future__ import annotations

import json
import re
from uuid import UUID

import pytest

from relay.core.pause import PauseScope, PauseTarget
from relay.outbox.admin.explain import explain_event
from relay.outbox.admin.pause import pause
from relay.outbox.admin.why import Why
from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from relay.routing.reported import read_reported, routes_text
from relay.routing.rules import Routes, Rule
from relay.routing.template import read_template
from tests.support.fixtures.outbox import Outbox, Row, give_rights

pytestmark = pytest.mark.postgres

TABLE = TableName()
_RELAY = """
INSERT INTO openoutbox_relays (
    instance, relay_id, version, host, state, reason, destination_type, destination, lease_timeout, ordering,
    on_delivered
) VALUES (gen_random_uuid(), 'relay-0', '1.0', 'host', %s, %s, 'kafka', 'ab12', 60, %s, 'keep')
"""
AWAY = "destination kafka is away since 2026-03-10T11:00:00Z: no broker"


@pytest.fixture
def extended(outbox: Outbox) -> Outbox:
    """The outbox with pauses, a list of relays and order per key."""
    for extension in ("pause", "fleet", "key-order"):
        add_extension(outbox.owner_url, TABLE, extension)
    with outbox.database.connect() as connection:
        give_rights(connection)
    return outbox


def explained(outbox: Outbox, event_id: str) -> Why:
    """As a reader gets it."""
    answer = explain_event(outbox.reader_url, TABLE, UUID(event_id), read_reported)
    assert answer is not None
    assert str(answer.event.event_id) == event_id
    return answer.why


def start(outbox: Outbox, *, state: str = "active", reason: str = "", ordering: str = "none") -> None:
    """The row of a relay that lives."""
    outbox.database.run(_RELAY, [state, reason, ordering])


def test_an_outbox_without_extensions_has_an_answer(outbox: Outbox) -> None:
    [event_id] = outbox.insert([Row("a", partition_key="k")])
    answer = explained(outbox, event_id)
    assert (answer.first.cause, answer.also) == ("relay", ())
    assert explain_event(outbox.reader_url, TABLE, UUID(int=7), read_reported) is None


def test_an_event_waits_behind_the_first_of_its_key_until_that_is_delivered(extended: Outbox) -> None:
    first, second, third, other = extended.insert([Row("a", partition_key=key) for key in ("k", "k", "k", "other")])
    start(extended, ordering="key, block")
    assert [explained(extended, one).first.cause for one in (first, other)] == ["due", "due"]
    assert [explained(extended, one).first.blocker for one in (second, third)] == [("event", first)] * 2
    extended.database.run("UPDATE openoutbox_events SET status = 'DEAD' WHERE event_id = %s", [first])
    answer = explained(extended, third)
    assert re.fullmatch(f"Event {first} of its key is dead since \\S+Z and holds the key\\.", answer.first.sentence)
    assert [reason.blocker for reason in answer.also] == [("event", second)]
    extended.database.run(
        "UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = now() WHERE status = 'DEAD'"
    )
    assert explained(extended, second).first.cause == "due"


def test_a_pause_a_destination_and_the_lack_of_a_relay_are_named_in_this_order(extended: Outbox) -> None:
    [event_id] = extended.insert([Row("a")])
    start(extended, state="paused", reason=AWAY)
    pause(extended.owner_url, TABLE, PauseTarget(PauseScope.TYPE, "a"), who="ada", reason="repair")
    answer = explained(extended, event_id)
    assert answer.first.sentence.startswith("Event type a is paused by ada since 2")
    assert answer.first.step == "relay-cli resume --type a"
    [destination] = answer.also
    assert destination.sentence == f"Its {AWAY}."
    extended.database.run("UPDATE openoutbox_relays SET seen_at = now() - interval '1 minute'")
    assert [reason.cause for reason in explained(extended, event_id).also] == ["relay"]


def test_a_lease_ends_when_its_relay_says(extended: Outbox) -> None:
    [event_id] = extended.insert([Row("a")])
    start(extended)
    extended.database.run(
        "UPDATE openoutbox_events SET status = 'DELIVERING', locked_by = 'relay-0', locked_at = now()"
    )
    assert "the lease ends at 2" in explained(extended, event_id).first.sentence
    extended.database.run("UPDATE openoutbox_events SET locked_at = now() - interval '61 seconds'")
    assert "the lease ended at 2" in explained(extended, event_id).first.sentence


def test_what_may_not_be_read_is_not_hidden(extended: Outbox) -> None:
    [event_id] = extended.insert([Row("a")])
    start(extended)
    extended.database.run("REVOKE SELECT ON openoutbox_pauses FROM openoutbox_reader")
    answer = explained(extended, event_id)
    assert answer.first.cause == "due"
    [unknown] = answer.also
    assert "GRANT SELECT ON" in unknown.sentence


_TO_EU = Rule(1, "order.*", read_template("{header:region}.{type}", ""), "main")
_DROPPED = Rule(2, "debug.*", None, "")


def test_the_routes_that_relays_report_say_which_destination_is_the_events(extended: Outbox) -> None:
    routes = routes_text(Routes([_TO_EU, _DROPPED], default="audit"))
    away = "destination audit is away since 2026-03-10T11:00:00Z: no broker"
    start(extended, reason=away)
    extended.database.run(
        "UPDATE openoutbox_relays SET destination_type = 'several', settings = %s",
        [json.dumps({"routes": {"value": routes, "changed": False}})],
    )
    order, nowhere, debug, other = extended.insert(
        [Row("order.paid", headers='{"region": "eu"}'), Row("order.paid"), Row("debug.x"), Row("other")]
    )
    assert explained(extended, order).first.cause == "due"
    assert explained(extended, order).also == ()
    missing = explained(extended, nowhere)
    assert missing.first.cause == "route"
    assert missing.first.sentence.startswith("No route: route 1 sends order.* to {header:region}.{type}, and the event")
    assert explained(extended, debug).first.sentence.startswith("Route 2 drops it: it counts as delivered")
    answer = explained(extended, other)
    assert answer.first.sentence == f"Its {away}."
    assert answer.first.blocker == ("destination", "audit")
