"""Events as CloudEvents, read back by the CloudEvents SDK."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("cloudevents", reason="compares with the CloudEvents SDK")

from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings.amqp import AMQPMessage, from_amqp_event
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka_event
from hypothesis import given
from hypothesis import strategies as st

from relay.core.event import EventId, OutboxEvent, RoutedEvent
from relay.core.formats import cloudevents
from relay.core.formats.message import FormattedMessage

SOURCE = "/shop/orders"
CREATED = datetime(2026, 11, 24, 9, 30, 1, 123457, UTC)
ID = "0193f4a1-0000-7000-8000-000000000001"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
BINDINGS = {
    "kafka": cloudevents.KAFKA,
    "nats": cloudevents.NATS,
    "amqp": cloudevents.AMQP,
    "http": cloudevents.HTTP,
}


def event(
    payload: bytes = b'{"order": 1}',
    headers: dict[str, str] | None = None,
    *,
    key: str | None = "42",
    created: float = CREATED.timestamp(),
) -> OutboxEvent:
    text = json.dumps(headers or {}, ensure_ascii=False)
    return OutboxEvent(EventId(ID), "order.placed", key, payload, text, 0, 0.5, None, created)


def read(protocol: str, message: FormattedMessage) -> BaseCloudEvent:
    """As a consumer reads it that knows the protocol's binding."""
    headers = dict([*message.others, *message.own])
    assert len(headers) == len(message.others) + len(message.own), "no name occurs twice"
    if protocol == "kafka":
        encoded = {name: value.encode() for name, value in headers.items()}
        return from_kafka_event(KafkaMessage(encoded, None, message.payload))
    if protocol == "amqp":
        return from_amqp_event(AMQPMessage({"content-type": headers["content-type"]}, headers, message.payload))
    return from_http_event(HTTPMessage(headers, message.payload))  # the SDK has no NATS; its rules are those of HTTP


@pytest.mark.parametrize("protocol", BINDINGS)
@pytest.mark.parametrize("mode", [cloudevents.binary, cloudevents.structured])
def test_the_sdk_reads_every_attribute(protocol: str, mode: Any) -> None:
    headers = {"traceparent": TRACE, "tenant": 'ünï "%" c', "Tenant-Id": "7", "dataschema": "https://s.example/1"}
    received = read(protocol, mode(SOURCE, BINDINGS[protocol])(event(headers=headers)))
    assert received.get_attributes() == {
        "specversion": "1.0",
        "id": ID,
        "source": SOURCE,
        "type": "order.placed",
        "time": CREATED,
        "subject": "42",
        "datacontenttype": "application/json",
        "dataschema": "https://s.example/1",
        "traceparent": TRACE,
        "tenant": 'ünï "%" c',
    }
    assert received.get_data() == {"order": 1}


@pytest.mark.parametrize("protocol", BINDINGS)
@pytest.mark.parametrize("mode", [cloudevents.binary, cloudevents.structured])
def test_bytes_arrive_as_they_are(protocol: str, mode: Any) -> None:
    received = read(
        protocol, mode(SOURCE, BINDINGS[protocol])(event(b"\xff\x00{", {"Content-Type": 'image/png; a="100%"'}))
    )
    assert (received.get_datacontenttype(), received.get_data()) == ('image/png; a="100%"', b"\xff\x00{")


def test_what_is_no_attribute_stays_a_header() -> None:
    headers = {
        "traceparent": TRACE,
        "tenant_id": "a",
        "Upper": "b",
        "id": "c",
        "control": "d\n",
        "blank": "",
        "averyveryverylongname": "e",
        "ce_id": "forged",
        "CE_Source": "forged",
        "content-type": "not\na type",
    }
    message = cloudevents.binary(SOURCE, cloudevents.KAFKA)(event(headers=headers))
    assert message.others == [
        ("traceparent", TRACE),
        ("tenant_id", "a"),
        ("Upper", "b"),
        ("id", "c"),
        ("control", "d\n"),
        ("blank", ""),
        ("averyveryverylongname", "e"),
        ("X-User-ce_id", "forged"),
        ("X-User-CE_Source", "forged"),
        ("X-User-content-type", "not\na type"),
    ]
    assert read("kafka", message).get_id() == ID


def test_a_prefix_that_consumers_of_amqp_also_read_cannot_be_forged() -> None:
    message = cloudevents.binary(SOURCE, cloudevents.AMQP)(event(headers={"cloudEvents_id": "forged"}))
    assert read("amqp", message).get_id() == ID
    assert message.others == [("X-User-cloudEvents_id", "forged")]


def test_the_type_is_the_rows_own_wherever_a_route_sends_it() -> None:
    routed = RoutedEvent(*event()._replace(event_type="outbox.order.placed"))
    routed.row_type = "order.placed"
    message = cloudevents.binary(SOURCE, cloudevents.KAFKA)(routed)
    assert dict(message.own)["ce_type"] == "order.placed"


@pytest.mark.parametrize("created", [math.inf, -math.inf, 1e15, -1e15])
def test_a_time_that_cannot_be_written_is_left_out(created: float) -> None:
    message = cloudevents.binary(SOURCE, cloudevents.KAFKA)(event(created=created))  # the SDK would add the time of now
    assert "ce_time" not in dict(message.own)


@pytest.mark.parametrize("key", [None, "", "a\nb"])
def test_a_key_that_cannot_be_a_subject_is_left_out(key: str | None) -> None:
    attributes = read("kafka", cloudevents.binary(SOURCE, cloudevents.KAFKA)(event(key=key))).get_attributes()
    assert "subject" not in attributes


@pytest.mark.parametrize(
    ("payload", "media_type", "data"),
    [
        (b'{"n": 12345678901234567890123, "f": 1.10}', None, b'"data":{"n": 12345678901234567890123, "f": 1.10}'),
        (b"  [1]\n", None, b'"data":  [1]\n'),
        (b"1", "application/vnd.shop+json; charset=utf-8", b'"data":1'),
        (b"1", "text/plain", b'"data_base64":"MQ=="'),
        (b"{broken}", "application/json", b'"data_base64":"e2Jyb2tlbn0="'),
        (b'{"a": NaN}', None, b'"data_base64":"eyJhIjogTmFOfQ=="'),
        ('{"a": "ü"}'.encode("latin-1"), None, b'"data_base64":"eyJhIjogIvwifQ=="'),
        ("[1]".encode("utf-16"), None, b'"data_base64":"//5bADEAXQA="'),
        (b"", None, b'"data_base64":""'),
    ],
)
def test_data_is_embedded_only_where_it_is_json(payload: bytes, media_type: str | None, data: bytes) -> None:
    headers = {} if media_type is None else {"content-type": media_type}
    message = cloudevents.structured(SOURCE, cloudevents.KAFKA)(event(payload, headers))
    assert message.payload.endswith(b"," + data + b"}")
    json.loads(message.payload)


@pytest.mark.parametrize(
    ("payload", "media_type"),
    [
        (b'{"a":1}', "json"),
        (b" [1] \n", "json"),
        (b"{", "octet-stream"),
        (b"{]", "octet-stream"),
        (b"", "octet-stream"),
    ],
)
def test_in_binary_mode_the_ends_of_a_payload_name_its_type(payload: bytes, media_type: str) -> None:
    message = cloudevents.binary(SOURCE, cloudevents.KAFKA)(event(payload))
    assert dict(message.own)["content-type"] == f"application/{media_type}"


_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(
    st.sampled_from(list(BINDINGS)),
    st.sampled_from([cloudevents.binary, cloudevents.structured]),
    st.dictionaries(
        _TEXT | st.sampled_from(["a", "time", "data", "Content-Type", "ce_a", "ce-a"]), _TEXT | st.integers()
    ),
    st.binary(),
    st.none() | _TEXT,
    st.floats(),
)
def test_every_event_is_a_valid_cloudevent(
    protocol: str, mode: Any, headers: dict[str, Any], payload: bytes, key: str | None, created: float
) -> None:
    row = OutboxEvent(EventId(ID), "t", key, payload, json.dumps(headers, ensure_ascii=False), 0, 0.0, None, created)
    message = mode(SOURCE, BINDINGS[protocol])(row)
    own = {name.lower() for name, _ in message.own}
    assert not own & {name.lower() for name, _ in message.others}
    received = read(protocol, message._replace(others=[]))
    assert (received.get_id(), received.get_source(), received.get_type()) == (ID, SOURCE, "t")
