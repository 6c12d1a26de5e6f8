"""MESSAGE_FORMAT through the daemon, on real brokers: a consumer with the CloudEvents SDK reads what a row holds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import redis
from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings.amqp import AMQPMessage, from_amqp_event
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka_event
from nats.js import JetStreamContext

from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.kafka import MakeTopic
from tests.support.fixtures.nats import MakeStream, read_stream
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.rabbitmq import MakeQueue
from tests.support.rabbitmq import RabbitAdmin
from tests.support.servers.webhooks import WebhookServer

SOURCE = "/shop/orders"
CREATED = datetime(2026, 11, 24, 9, 30, 1, 123457, UTC)
EVENT_ID = "0193f4a1-0000-7000-8000-00000000000a"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
INSERT = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers, created_at)
VALUES (%s, %s, 'ключ 7', %s, %s, %s)
"""
HEADERS = f'{{"tenant": "ünï ✓", "tenant_id": "t1", "traceparent": "{TRACE}"}}'
MODES = ["cloudevents", "cloudevents-structured"]
ORDERINGS = ["none", "key"]


def send(outbox: Outbox, daemon: StartDaemon, event_type: str, mode: str, **env: str) -> None:
    """Insert one event, and have it delivered in that format."""
    payload = b'{"order": 12345678901234567890123}'
    outbox.database.run(INSERT, [EVENT_ID, event_type, payload, HEADERS, CREATED])
    daemon(MESSAGE_FORMAT=mode, CLOUDEVENTS_SOURCE=SOURCE, **env)
    outbox.wait_finished(20)
    assert outbox.counts() == {"DELIVERED": 1}, outbox.row(EVENT_ID)["last_error"]


def check(event: BaseCloudEvent, event_type: str, **more: str) -> None:
    assert event.get_attributes() == {
        "specversion": "1.0",
        "id": EVENT_ID,
        "source": SOURCE,
        "type": event_type,
        "time": CREATED,
        "subject": "ключ 7",
        "datacontenttype": "application/json",
        "tenant": "ünï ✓",
        "traceparent": TRACE,
        **more,
    }
    assert event.get_data() == {"order": 12345678901234567890123}


@pytest.mark.parametrize("ordering", ORDERINGS)
@pytest.mark.parametrize("mode", MODES)
def test_kafka(
    outbox: Outbox, daemon: StartDaemon, kafka: str, topic: MakeTopic, consume: Any, mode: str, ordering: str
) -> None:
    name = topic()
    if ordering == "key":
        add_extension(outbox.url, TableName(), "key-order")
    send(outbox, daemon, name, mode, PUBLISHER_TYPE="kafka", PUBLISHER_URL=kafka, ORDERING=ordering)
    [message] = consume(name, 1)
    headers = dict(message.headers())
    assert (headers["X-Event-ID"], headers["tenant_id"]) == (EVENT_ID.encode(), b"t1")
    assert headers["traceparent"] == TRACE.encode()
    check(from_kafka_event(KafkaMessage(headers, message.key(), message.value())), name, partitionkey="ключ 7")


@pytest.mark.parametrize("mode", MODES)
async def test_nats(
    outbox: Outbox, daemon: StartDaemon, nats_url: str, stream: MakeStream, jetstream: JetStreamContext, mode: str
) -> None:
    name = await stream()
    send(outbox, daemon, name.subject(), mode, PUBLISHER_TYPE="nats", PUBLISHER_URL=nats_url)
    [message] = await read_stream(jetstream, name, 1)
    assert (message.headers["Nats-Msg-Id"], message.headers["tenant_id"]) == (EVENT_ID, "t1")
    # The SDK has no binding of NATS, whose headers are HTTP's.
    check(from_http_event(HTTPMessage(message.headers, message.data)), name.subject())


@pytest.mark.parametrize("mode", MODES)
def test_rabbitmq(
    outbox: Outbox, daemon: StartDaemon, rabbitmq_url: str, rabbit: RabbitAdmin, queue: MakeQueue, mode: str
) -> None:
    name = queue()
    send(outbox, daemon, name, mode, PUBLISHER_TYPE="rabbitmq", PUBLISHER_URL=rabbitmq_url)
    [message] = rabbit.read(name, 1)
    assert (message.message_id, message.headers["tenant_id"]) == (EVENT_ID, "t1")
    received = AMQPMessage({"content-type": message.content_type}, message.headers, message.body)
    check(from_amqp_event(received), name)


@pytest.mark.parametrize("mode", MODES)
def test_redis(outbox: Outbox, daemon: StartDaemon, redis_url: str, mode: str) -> None:
    name = f"formats {mode}"
    send(outbox, daemon, name, mode, PUBLISHER_TYPE="redis", PUBLISHER_URL=redis_url)
    with redis.Redis.from_url(redis_url) as client:
        [(_, fields)] = client.xrange(name)
        client.delete(name)
    assert (fields[b"id"], fields[b"h:tenant_id"]) == (EVENT_ID.encode(), b"t1")
    headers = {field.decode(): value for field, value in fields.items() if not field.startswith(b"h:")}
    check(from_kafka_event(KafkaMessage(headers, None, fields[b"payload"])), name)  # its names are Kafka's


@pytest.mark.parametrize("mode", MODES)
def test_http(outbox: Outbox, daemon: StartDaemon, own_webhooks: WebhookServer, mode: str) -> None:
    broker = {"PUBLISHER_TYPE": "http", "PUBLISHER_URL": own_webhooks.url, "HTTP_ALLOW_PRIVATE": "true"}
    send(outbox, daemon, "order.placed", mode, **broker)
    [post] = own_webhooks.received("order.placed")
    assert (post.header("webhook-id"), post.header("X-User-tenant_id")) == (EVENT_ID, "t1")
    check(from_http_event(HTTPMessage(dict(post.headers), post.body)), "order.placed")


def test_debezium(outbox: Outbox, daemon: StartDaemon, kafka: str, topic: MakeTopic, consume: Any) -> None:
    name = topic(prefix="outbox.event.order")
    outbox.database.run(INSERT, [EVENT_ID, name, b'{"a": 1}', '{"eventType": "OrderPlaced"}', CREATED])
    daemon(MESSAGE_FORMAT="debezium", PUBLISHER_TYPE="kafka", PUBLISHER_URL=kafka)
    [message] = consume(name, 1)
    assert (message.key().decode(), message.value()) == ("ключ 7", b'{"a": 1}')
    assert dict(message.headers()) == {
        "X-Event-ID": EVENT_ID.encode(),
        "id": EVENT_ID.encode(),
        "eventType": b"OrderPlaced",
    }
