"""What Debezium's outbox event router would have sent; tests/system/scale compares it with Debezium itself."""

from __future__ import annotations

from relay.core.formats import debezium
from tests.brokers.harness.base import make_event


def test_debezium_server_writes_headers_as_json() -> None:
    event = make_event("order", headers='{"eventType": "Order \\"placed\\" ✓"}')
    message = debezium.server_message(event)
    assert message.own == [("id", f'"{event.event_id}"')]
    assert message.others == [("eventType", '"Order \\"placed\\" ✓"')]


def test_the_id_comes_first_and_the_rows_headers_follow() -> None:
    event = make_event("order", b'{"a": 1}', key="7", headers='{"eventType": "OrderPlaced", "id": "mine", "n": 1.50}')
    message = debezium.connect_message(event)
    assert message.payload == b'{"a": 1}'
    assert message.own == [("id", event.event_id)]
    assert message.others == [("eventType", "OrderPlaced"), ("X-User-id", "mine"), ("n", "1.50")]
