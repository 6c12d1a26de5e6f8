"""The headers of a Kafka message, without a broker."""

from __future__ import annotations

import pytest

from relay.brokers.kafka.headers import message_headers
from tests.brokers.harness.base import make_event


def test_the_event_id_comes_first_and_the_users_headers_in_their_order() -> None:
    event = make_event("t", headers='{"b": "1", "a": 2.50, "Ä": "ü"}')
    assert message_headers(event) == [("X-Event-ID", event.event_id), ("b", "1"), ("a", "2.50"), ("Ä", "ü")]


@pytest.mark.parametrize("name", ["X-Event-ID", "x-event-id", "X-EVENT-id"])
def test_a_users_event_id_does_not_replace_the_relays(name: str) -> None:
    event = make_event("t", headers=f'{{"{name}": "forged"}}')
    assert message_headers(event) == [("X-Event-ID", event.event_id), (f"X-User-{name}", "forged")]


def test_a_longer_name_that_begins_alike_is_left_as_it_is() -> None:
    event = make_event("t", headers='{"X-Event-ID-2": "v"}')
    assert message_headers(event)[1:] == [("X-Event-ID-2", "v")]


def test_without_headers_the_event_id_is_sent_alone() -> None:
    event = make_event("t")
    assert message_headers(event) == [("X-Event-ID", event.event_id)]
