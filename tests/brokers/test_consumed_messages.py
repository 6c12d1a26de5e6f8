"""What a publisher makes of an event, ``openoutbox.Message`` turns back into that event."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoutbox import Message, MessageError
from relay.brokers.aws import message as aws
from relay.brokers.http import headers as http
from relay.brokers.kafka import headers as kafka
from relay.brokers.nats import headers as nats
from relay.brokers.rabbitmq import headers as rabbitmq
from relay.brokers.redis import headers as redis
from relay.core.event import EventId, OutboxEvent

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def event(payload: bytes = b"{}", key: str | None = None, headers: dict[str, str] | None = None) -> OutboxEvent:
    text = json.dumps(headers or {})
    return OutboxEvent(EventId(str(uuid.uuid4())), "order.placed", key, payload, text, 0, 0.0)


def by_kafka(sent: OutboxEvent) -> Message:
    """As confluent-kafka has it: methods, and values in bytes."""
    pairs = [(name, str(value).encode()) for name, value in kafka.message_headers(sent)]
    key = None if sent.partition_key is None else sent.partition_key.encode()
    return Message.from_kafka(
        SimpleNamespace(
            headers=lambda: pairs, key=lambda: key, value=lambda: sent.payload, topic=lambda: sent.event_type
        )
    )


def by_nats(sent: OutboxEvent) -> Message:
    reply = "$JS.ACK.hub.aCcOuNt.ORDERS.billing.3.7.7.1690000000000000000.0.x"
    given = nats.message_headers(sent)
    return Message.from_nats(SimpleNamespace(headers=given, data=sent.payload, subject=sent.event_type, reply=reply))


def by_redis(sent: OutboxEvent) -> Message:
    fields = [part.encode() if isinstance(part, str) else part for part in redis.entry_fields(sent)]
    return Message.from_redis(b"order.placed", dict(zip(fields[::2], fields[1::2], strict=True)), deliveries=3)


def by_rabbitmq(sent: OutboxEvent) -> Message:
    headers = {**dict(rabbitmq.message_headers(sent)), "x-delivery-count": 2, "x-death": [{"count": 1}]}
    properties = SimpleNamespace(headers=headers, message_id=str(sent.event_id))
    method = SimpleNamespace(routing_key=sent.event_type, redelivered=True)
    return Message.from_rabbitmq(method, properties, sent.payload)


def by_webhook(sent: OutboxEvent) -> Message:
    ours = {"webhook-id": str(sent.event_id), "webhook-timestamp": "1", "content-type": "application/json"}
    return Message.from_webhook({**ours, **dict(http.message_headers(sent))}, sent.payload)


def by_sqs(sent: OutboxEvent) -> Message:
    message = aws.to_message(sent)
    attributes = {name: {"DataType": "String", "StringValue": value} for name, value in message.attributes.items()}
    return Message.from_sqs(
        {"Body": message.body, "MessageAttributes": attributes, "Attributes": {"ApproximateReceiveCount": "3"}}
    )


READERS = [by_kafka, by_nats, by_redis, by_rabbitmq, by_webhook, by_sqs]
every = pytest.mark.parametrize("read", READERS)
Read = Callable[[OutboxEvent], Message]


@every
def test_what_was_sent_is_read(read: Read) -> None:
    sent = event(b'{"n": "caf\xc3\xa9"}', "7", {"traceparent": TRACE, "a": "b"})
    message = read(sent)
    assert message.event_id == str(sent.event_id)
    assert message.event_type == (None if read is by_sqs else "order.placed")
    assert (message.partition_key, message.payload) == ("7", sent.payload)
    assert message.headers == {"traceparent": TRACE, "a": "b"}
    assert message.trace == {"traceparent": TRACE}
    assert message.deliveries == (None if read in {by_kafka, by_webhook} else 3)
    assert "payload" not in repr(message)


@every
@pytest.mark.parametrize("payload", [b"", b"\xff\x00", b"-"])
@pytest.mark.parametrize("key", [None, "", " k\n\xe9"])
def test_any_payload_and_key(read: Read, payload: bytes, key: str | None) -> None:
    message = read(event(payload, key))
    assert (message.payload, message.partition_key, message.headers) == (payload, key, {})


RESERVED = {
    "X-Event-ID": "1",
    "X-Partition-Key": "2",
    "Nats-Expected-Stream": "3",
    "CC": "4",
    "two words": "5",
    "": "6",
    "X-Payload-Encoding": "7",
    "X-More-Headers": "8",
    "h:a": "9",
}


@every
@pytest.mark.parametrize("name", RESERVED)
def test_a_name_that_the_broker_or_the_relay_uses_comes_back(read: Read, name: str) -> None:
    assert read(event(headers={name: "v", "other": "w"})).headers == {name: "v", "other": "w"}


@every
def test_more_headers_than_attributes(read: Read) -> None:
    headers = {f"n{number}": "\x07" * number for number in range(12)}
    assert read(event(key="k", headers=headers)).headers == headers


def plain(text: str) -> bool:
    """Whether nothing in it looks like what the relay makes of other texts: that cannot be told apart."""
    return "%" not in text and not text.lower().startswith(("x-", "h:"))


# Names that meet when letters are compared without case get a prefix, which cannot be undone: so one header at a time.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@every
@given(name=texts.filter(plain), value=texts.filter(plain), key=st.none() | texts.filter(plain))
def test_any_text_comes_back(read: Read, name: str, value: str, key: str | None) -> None:
    message = read(event(key=key, headers={name: value}))
    assert (message.headers, message.partition_key) == ({name: value}, key)


@pytest.mark.parametrize(
    ("read", "missing"),
    [
        (
            lambda: Message.from_kafka(SimpleNamespace(headers=None, key=None, value=b"", topic="t")),
            "header X-Event-ID",
        ),
        (lambda: Message.from_nats(SimpleNamespace(headers=None, data=b"", subject="s")), "header Nats-Msg-Id"),
        (lambda: Message.from_redis("s", {"payload": "x"}), "field id"),
        (
            lambda: Message.from_rabbitmq(
                SimpleNamespace(routing_key="q", redelivered=False), SimpleNamespace(headers=None, message_id=None), b""
            ),
            "property message_id",
        ),
        (lambda: Message.from_webhook([("Content-Type", "x")], b""), "header webhook-id"),
        (lambda: Message.from_sqs({"Body": "x"}), "message attribute X-Event-ID"),
    ],
)
def test_a_message_of_another_sender_is_named_by_what_it_lacks(read: Callable[[], Any], missing: str) -> None:
    with pytest.raises(MessageError, match=f"the message has no {missing}: no relay sent it"):
        read()


def test_what_is_no_text_is_named() -> None:
    with pytest.raises(MessageError, match="x-other: not UTF-8"):
        Message.from_kafka(SimpleNamespace(headers=[("x-other", b"\xff")], key=None, value=b"", topic="t"))


def sqs(body: str = "x", **attributes: str) -> Message:
    named = {name.replace("_", "-"): {"StringValue": value} for name, value in attributes.items()}
    return Message.from_sqs({"Body": body, "MessageAttributes": {"X-Event-ID": {"StringValue": "1"}, **named}})


@pytest.mark.parametrize(
    ("read", "error"),
    [
        (lambda: sqs(X_More_Headers="{"), "X-More-Headers: not a JSON object"),
        (lambda: sqs(X_More_Headers="[" * 100_000), "X-More-Headers: not a JSON object"),
        (lambda: sqs(X_More_Headers="[1]"), "X-More-Headers: not a JSON object"),
        (lambda: sqs("no base64", X_Payload_Encoding="base64"), "the body is not base64"),
        (lambda: sqs(X_Payload_Encoding="zip"), "'zip' is neither base64 nor empty"),
        (lambda: Message.from_redis("s", {"id": "x" * 201}), "field id: .* is no id of an event"),
        (lambda: Message.from_redis("s", {"id": "a\0"}), "field id: .* is no id of an event"),
    ],
)
def test_a_hostile_message_is_a_message_error(read: Callable[[], Any], error: str) -> None:
    with pytest.raises(MessageError, match=error):
        read()


def test_a_reply_subject_of_another_form_has_no_count() -> None:
    message = SimpleNamespace(headers={"Nats-Msg-Id": "1"}, data=b"", subject="s", reply="$JS.ACK.a.b.c.d.e.f.g")
    assert Message.from_nats(message).deliveries is None
